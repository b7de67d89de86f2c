"""Folders and zips of images: every kind of pixel, and files that are not mended stay byte for byte."""

import zipfile
from io import BytesIO
from zlib import compress, crc32

import numpy as np
import pytest
import tifffile
from numpy.testing import assert_array_equal
from PIL import Image

from kernmend.io import FileError, read

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, size=(3, 6, 5), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, size=(3, 6, 5, 3), dtype=np.uint8)


def folder_of(place, images, ending="png", **options):
    place.mkdir(exist_ok=True)
    for i, image in enumerate(images):
        picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
        if ending == "pgm" and picture.mode == "I;16":  # which older versions of Pillow do not write as pgm
            picture = picture.convert("I")
        picture.save(place / f"{i}.{ending}", **options)
    return place


def pixels(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("L") if image.mode == "P" else image)


KINDS = {
    "grey png": (GREY, "png", (6, 5), (0, 255)),
    "colour png": (COLOUR, "png", (6, 5, 3), (0, 255)),
    "1-bit png": (GREY > 127, "png", (6, 5), (0, 1)),
    "1-bit tiff": (GREY > 127, "tif", (6, 5), (0, 1)),
    "1-bit bmp": (GREY > 127, "bmp", (6, 5), (0, 1)),
    "16-bit png": (GREY.astype(np.uint16) * 257, "png", (6, 5), (0, 65535)),
    "16-bit tiff": (GREY.astype(np.uint16) * 257, "tiff", (6, 5), (0, 65535)),
    "16-bit pgm": (GREY.astype(np.uint16) * 257, "pgm", (6, 5), (0, 65535)),
    "32-bit tiff": (GREY.astype(np.int32) * 65537, "tif", (6, 5), None),
    "float tiff": (GREY.astype(np.float32) / 7, "tif", (6, 5), None),
    "bmp": (COLOUR, "bmp", (6, 5, 3), (0, 255)),
    "ppm": (COLOUR, "ppm", (6, 5, 3), (0, 255)),
    "pgm": (GREY, "pgm", (6, 5), (0, 255)),
    "gif": (GREY, "gif", (6, 5), (0, 255)),
    "webp": (COLOUR, "webp", (6, 5, 3), (0, 255)),
}


@pytest.mark.parametrize(("images", "ending", "shape", "bounds"), KINDS.values(), ids=KINDS.keys())
def test_kinds_of_pixels(tmp_path, images, ending, shape, bounds):
    there = folder_of(tmp_path / "in", images, ending, **({"lossless": True} if ending == "webp" else {}))
    data = read(there)
    assert (data.format, data.image_shape, data.bounds) == ("images", shape, bounds)
    assert data.row_labels == tuple(f"{i}.{ending}" for i in range(3))
    assert_array_equal(data.X, images.reshape(3, -1))
    assert data.integer.all() == (images.dtype.kind != "f")
    A = data.X.copy()
    A[1, 3], A[1, 4] = (1e6, -1e6) if bounds else (0.4, -2.6)
    here = data.write(tmp_path / "out", A)
    expected = images.copy().reshape(3, -1)
    expected[1, 3:5] = bounds[::-1] if bounds else (np.rint(A[1, 3:5]) if data.integer.all() else A[1, 3:5])
    assert_array_equal(pixels(here / f"1.{ending}"), expected[1].reshape(shape))
    for i in (0, 2):
        assert (there / f"{i}.{ending}").read_bytes() == (here / f"{i}.{ending}").read_bytes()
    with Image.open(there / f"1.{ending}") as one, Image.open(here / f"1.{ending}") as two:
        assert (one.format, one.mode) == (two.format, two.mode)


def test_alpha_resolution_and_profile_pass_through(tmp_path):
    alpha = RNG.integers(0, 256, size=(6, 5), dtype=np.uint8)
    images = [Image.fromarray(np.dstack([colours, alpha])) for colours in COLOUR]
    data = read(folder_of(tmp_path / "in", images, dpi=(300, 300), icc_profile=b"profile"))
    assert_array_equal(data.X, COLOUR.reshape(3, -1))
    here = data.write(tmp_path / "out", 255 - data.X)
    with Image.open(here / "0.png") as image:
        assert image.info["icc_profile"] == b"profile"
        assert round(image.info["dpi"][0]) == 300
        assert_array_equal(np.asarray(image), np.dstack([255 - COLOUR[0], alpha]))


def test_grey_with_alpha(tmp_path):
    images = [Image.merge("LA", [Image.fromarray(grey), Image.fromarray(255 - grey)]) for grey in GREY]
    data = read(folder_of(tmp_path / "in", images))
    assert data.image_shape == (6, 5)
    here = data.write(tmp_path / "out", np.zeros(data.X.shape))
    assert_array_equal(pixels(here / "2.png"), np.dstack([np.zeros_like(GREY[2]), 255 - GREY[2]]))


@pytest.mark.parametrize("transparent", [False, True])
def test_palettes_are_read_as_colour_and_mended_ones_written_so(tmp_path, transparent):
    images = [Image.fromarray(colours).quantize(16) for colours in COLOUR]
    options = {"transparency": 3} if transparent else {}
    data = read(folder_of(tmp_path / "in", images, **options))
    assert data.image_shape == (6, 5, 3)
    assert data.notes == (
        "3 of 3 images have a palette: they are read as grey or colour, and written so if they are mended",
    )
    assert_array_equal(data.X[0].reshape(6, 5, 3), np.asarray(images[0].convert("RGB")))
    A = data.X.copy()
    A[0] = COLOUR[0].ravel()
    here = data.write(tmp_path / "out", A)
    assert pixels(here / "0.png").shape == (6, 5, 4 if transparent else 3)
    assert_array_equal(pixels(here / "0.png")[..., :3], COLOUR[0])
    assert (here / "1.png").read_bytes() == (tmp_path / "in/1.png").read_bytes()


def test_mended_jpegs_keep_their_quality(tmp_path):
    smooth = [np.add.outer(np.arange(16), np.arange(16) + i).astype(np.uint8) * 4 for i in range(3)]
    data = read(folder_of(tmp_path / "in", smooth, "jpg", quality=95))
    assert "JPEG" in data.notes[0]
    A = data.X.copy()
    A[2] += 20
    here = data.write(tmp_path / "out", A)
    assert np.abs(pixels(here / "2.jpg").ravel() - A[2]).max() <= 4
    with Image.open(here / "2.jpg") as new, Image.open(tmp_path / "in/2.jpg") as old:
        assert new.quantization == old.quantization
    assert (here / "0.jpg").read_bytes() == (tmp_path / "in/0.jpg").read_bytes()


def test_other_files_and_folders_inside_pass_through(tmp_path):
    there = folder_of(tmp_path / "in", GREY[:1])
    folder_of(there / "more", GREY[1:])
    (there / "labels.txt").write_text("a\nb\n")
    (there / "._0.png").write_bytes(b"what macOS leaves")
    data = read(there)
    assert data.row_labels == ("0.png", "more/0.png", "more/1.png")
    assert data.passed == ("._0.png", "labels.txt")
    here = data.write(tmp_path / "out", data.X)
    assert (here / "labels.txt").read_text() == "a\nb\n"
    assert (here / "more/1.png").read_bytes() == (there / "more/1.png").read_bytes()


def zip_of(path, images, extra=()):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("set")
        for i, image in enumerate(images):
            out = BytesIO()
            Image.fromarray(image).save(out, format="png")
            archive.writestr(f"set/{i}.png", out.getvalue())
        for name, content in extra:
            archive.writestr(name, content)
    return path


def test_zip(tmp_path):
    data = read(zip_of(tmp_path / "in.zip", COLOUR, [("read me", b"text")]))
    assert (data.format, data.image_shape, data.passed) == ("zip", (6, 5, 3), ("read me",))
    assert_array_equal(data.X, COLOUR.reshape(3, -1))
    A = data.X.copy()
    A[1] = 7
    data.write(tmp_path / "out.zip", A)
    with zipfile.ZipFile(tmp_path / "in.zip") as old, zipfile.ZipFile(tmp_path / "out.zip") as new:
        assert new.namelist() == old.namelist()
        assert all((old.read(name) == new.read(name)) == (name != "set/1.png") for name in old.namelist())
        assert (pixels(BytesIO(new.read("set/1.png"))) == 7).all()


def test_mixed_sizes_and_kinds_are_refused_by_name(tmp_path):
    there = folder_of(tmp_path / "in", [GREY[0], GREY[1], GREY[2][:4]])
    with pytest.raises(FileError, match=r"2.png is 5×4, the images before it 5×6: all must have one size"):
        read(there)
    folder_of(there, [GREY[0], GREY[1], COLOUR[2]])
    with pytest.raises(FileError, match=r"2.png has colour pixels but 0.png has grey pixels"):
        read(there)
    folder_of(there, [GREY[0], GREY[1].astype(np.uint16), GREY[2]])
    with pytest.raises(FileError, match=r"1.png has 16-bit grey pixels but 0.png has grey pixels"):
        read(there)


def test_pictures_that_would_lose_something_are_refused(tmp_path):
    images = [Image.fromarray(grey) for grey in GREY]
    frames = folder_of(tmp_path / "frames", images[:1], "gif", save_all=True, append_images=images[1:])
    with pytest.raises(FileError, match=r"0.gif holds several pictures"):
        read(frames)
    ink = folder_of(tmp_path / "ink", [Image.fromarray(COLOUR[0]).convert("CMYK")], "jpg")
    with pytest.raises(FileError, match="in the colour space CMYK"):
        read(ink)


def test_image_shape_and_columns(tmp_path):
    there = folder_of(tmp_path / "in", GREY)
    assert read(there, image_shape=(6, 5)).image_shape == (6, 5)
    with pytest.raises(FileError, match=r"the images are \(6, 5\), not \(5, 6\)"):
        read(there, image_shape=(5, 6))
    with pytest.raises(FileError, match="images have no columns"):
        read(there, columns=["x"])


@pytest.mark.parametrize("bad", [0, 1])
def test_a_truncated_or_false_image_is_named_and_left(tmp_path, bad):
    there = folder_of(tmp_path / "in", [*GREY, GREY[0]])
    whole = (there / f"{bad}.png").read_bytes()
    for number, content in enumerate((whole[: len(whole) // 2], b"words")):
        (there / f"{bad}.png").write_bytes(content)
        data = read(there)
        assert data.row_labels == tuple(f"{i}.png" for i in range(4) if i != bad)
        assert data.passed == (f"{bad}.png",)
        assert data.notes == (f"{bad}.png is damaged or no image, and kept as it is.",)
        here = data.write(tmp_path / f"out {number}", 255 - data.X)
        assert (here / f"{bad}.png").read_bytes() == content
        assert_array_equal(pixels(here / "3.png"), 255 - GREY[0])


def test_where_all_images_but_one_are_broken_the_first_is_named(tmp_path):
    there = folder_of(tmp_path / "in", GREY[:2])
    (there / "1.png").write_text("words")
    with pytest.raises(FileError, match=r"in: 1.png: not an image of a kind that is read"):
        read(there)


DEEP = RNG.integers(0, 2**16, size=(3, 6, 5, 3), dtype=np.uint16)


def deep_png(pixels, filters, extra=b""):
    """A PNG of 16-bit colours, each row filtered in another way, packed by hand."""
    height, width, channels = pixels.shape
    raw = pixels.astype(">u2").tobytes()
    size, line = 2 * channels, 2 * channels * width
    rows = [np.frombuffer(raw[i * line : (i + 1) * line], np.uint8).astype(int) for i in range(height)]
    out = b""
    for i, row in enumerate(rows):
        above = rows[i - 1] if i else np.zeros(line, dtype=int)
        left, corner = (np.concatenate([np.zeros(size, dtype=int), some[:-size]]) for some in (row, above))
        near = left + above - corner
        best = np.argmin([abs(near - left), abs(near - above), abs(near - corner)], axis=0)
        paeth = np.choose(best, [left, above, corner])
        added = [np.zeros(line, dtype=int), left, above, (left + above) // 2, paeth][filters[i % len(filters)]]
        out += bytes([filters[i % len(filters)]]) + ((row - added) % 256).astype(np.uint8).tobytes()

    def chunk(kind, data):
        return len(data).to_bytes(4, "big") + kind + data + crc32(kind + data).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([16, {2: 4, 3: 2, 4: 6}[channels], 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", compress(out)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("filters", [[0], [1], [2], [3], [4], [4, 3, 2, 1, 0]])
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_png_of_16_bit_colours(tmp_path, filters, channels):
    images = RNG.integers(0, 2**16, size=(3, 6, 5, channels), dtype=np.uint16)
    (tmp_path / "in").mkdir()
    note = b"\0\0\0\x03tEXta\0b" + crc32(b"tEXta\0b").to_bytes(4, "big")
    for i, image in enumerate(images):
        (tmp_path / "in" / f"{i}.png").write_bytes(deep_png(image, filters, note))
    data = read(tmp_path / "in")
    colours = images[..., :3] if channels > 2 else images[..., 0]
    assert (data.bounds, data.image_shape) == ((0, 65535), colours.shape[1:])
    assert_array_equal(data.X, colours.reshape(3, -1))
    A = data.X.copy()
    A[1, 7] = 4321
    here = data.write(tmp_path / "out", A)
    assert_array_equal(read(here).X, A)
    assert note in (here / "1.png").read_bytes()
    assert (here / "0.png").read_bytes() == (tmp_path / "in/0.png").read_bytes()
    from kernmend.io._deep_png import read_deep

    if channels != 3:
        assert_array_equal(read_deep((here / "1.png").read_bytes())[..., -1], images[1, ..., -1])  # alpha


@pytest.mark.parametrize("options", [{}, {"compression": "zlib", "predictor": True}, {"bigtiff": True}])
def test_tiff_of_16_bit_colours(tmp_path, options):
    (tmp_path / "in").mkdir()
    for i, image in enumerate(DEEP):
        tifffile.imwrite(tmp_path / f"in/{i}.tif", image, photometric="rgb", resolution=(300, 300), **options)
    data = read(tmp_path / "in")
    assert_array_equal(data.X, DEEP.reshape(3, -1))
    A = data.X.copy()
    A[2, 5] = 77
    here = data.write(tmp_path / "out", A)
    assert_array_equal(tifffile.imread(here / "2.tif").ravel(), A[2])
    with tifffile.TiffFile(here / "2.tif") as file:
        assert file.pages[0].tags["XResolution"].value[0] == 300
    assert (here / "0.tif").read_bytes() == (tmp_path / "in/0.tif").read_bytes()


STACKS = {
    "grey": (GREY, {}),
    "16-bit": (GREY.astype(np.uint16) * 257, {}),
    "big-endian": (GREY.astype(np.uint16) * 257, {"byteorder": ">"}),
    "packed": (GREY.astype(np.uint16) * 257, {"compression": "zlib", "predictor": True}),
    "float": (GREY.astype(np.float32) / 7, {}),
    "colour": (COLOUR, {"photometric": "rgb"}),
    "16-bit colour": (DEEP, {"photometric": "rgb"}),
    "64-bit places": (GREY.astype(np.uint16), {"bigtiff": True}),
    "tiles": (np.repeat(np.repeat(GREY, 6, axis=1), 6, axis=2), {"tile": (16, 16)}),
}


@pytest.mark.parametrize(("pages", "options"), STACKS.values(), ids=STACKS.keys())
def test_pages_of_a_tiff_are_rows(tmp_path, pages, options):
    path = tmp_path / "stack.tif"
    with tifffile.TiffWriter(path, bigtiff=options.get("bigtiff", False), byteorder=options.get("byteorder")) as file:
        more = {key: value for key, value in options.items() if key not in ("bigtiff", "byteorder")}
        for page in pages:
            file.write(page, contiguous=False, description="cells", **more)
    raw = path.read_bytes()
    data = read(path)
    assert (data.format, data.row_labels) == ("tiff", ("page 1", "page 2", "page 3"))
    assert_array_equal(data.X, pages.reshape(3, -1))
    assert data.write(tmp_path / "same.tif", data.X).read_bytes() == raw
    A = data.X.copy()
    A[1:, 3] = 11
    again = data.write(tmp_path / "out.tif", A)
    assert_array_equal(read(again).X, A)
    new = again.read_bytes()
    changed = [at for at in range(8, len(raw)) if raw[at] != new[at]]
    assert len(changed) <= 8  # the places of the second and the third page
    with tifffile.TiffFile(again) as file, tifffile.TiffFile(path) as old:
        assert_array_equal([page.asarray().ravel() for page in file.pages], A)
        assert [page.description for page in file.pages] == [page.description for page in old.pages]
    if not {"compression", "tile"} & options.keys():
        assert read(again).write(tmp_path / "back.tif", data.X).read_bytes() == raw


def test_pages_that_share_their_pixels_are_mended_apart(tmp_path):
    with tifffile.TiffWriter(tmp_path / "stack.tif") as file:
        for page in GREY:
            file.write(page, contiguous=False)
    raw = bytearray((tmp_path / "stack.tif").read_bytes())
    with tifffile.TiffFile(tmp_path / "stack.tif") as file:
        first, second = (page.tags["StripOffsets"] for page in file.pages[:2])
        raw[second.valueoffset : second.valueoffset + 4] = raw[first.valueoffset : first.valueoffset + 4]
    (tmp_path / "stack.tif").write_bytes(raw)
    data = read(tmp_path / "stack.tif")
    assert_array_equal(data.X[0], data.X[1])
    A = data.X.copy()
    A[1, 3] = 255 - A[1, 3]
    assert_array_equal(read(data.write(tmp_path / "out.tif", A)).X, A)


def test_a_tiff_of_one_page_or_of_pages_that_differ(tmp_path):
    tifffile.imwrite(tmp_path / "one.tif", GREY[0])
    with pytest.raises(FileError, match="is one image: give a folder or zip"):
        read(tmp_path / "one.tif")
    with tifffile.TiffWriter(tmp_path / "sizes.tif") as file:
        file.write(GREY[0], contiguous=False)
        file.write(GREY[1][:4], contiguous=False)
    with pytest.raises(FileError, match=r"page 2 is 5×4, the images before it 5×6"):
        read(tmp_path / "sizes.tif")


def test_a_picture_of_far_too_many_pixels_is_refused_before_it_is_unpacked(tmp_path):
    there = folder_of(tmp_path / "in", GREY[:1])
    raw = bytearray((there / "0.png").read_bytes())
    raw[16:24] = (200_000).to_bytes(4, "big") * 2
    raw[29:33] = crc32(raw[12:29]).to_bytes(4, "big")
    (there / "0.png").write_bytes(raw)
    with pytest.raises(FileError, match=r"200000.?×200000 pixels|decompression bomb"):
        read(there)
