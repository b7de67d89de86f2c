from kernmend.cli.demo import run_demo, write_report


def test_the_demo_has_a_report(tmp_path):
    demo = run_demo(n_samples=40)
    path = write_report(demo, tmp_path / "report.html")
    text = path.read_text()
    assert "A circle, 4 of its 40 points replaced" in text
    assert write_report(demo, path) == path
