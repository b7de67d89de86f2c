// node check.mjs FOLDER: opens the pages that test_browser.py wrote, uses them as a reader does, and prints as JSON
// what went wrong in each check, null where nothing did.
import assert from "node:assert/strict";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { launch, open } from "./browser.mjs";

const folder = process.argv[2];
const address = (name) => pathToFileURL(join(folder, `${name}.html`)).href;
const PAGES = ["table", "clean", "curves", "pictures", "wide", "many", "file"];

const text = (page, selector) => page.locator(selector).first().textContent();
const factsOf = (page) => page.evaluate(() => JSON.parse(document.getElementById("facts").textContent));
const rowsListed = (page) => page.$$eval("#list [data-row]", (nodes) => nodes.map((node) => Number(node.dataset.row)));
const dotsFlagged = (page, map) => page.locator(`#map-${map} .dot.flagged`).count();
const background = (page) => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
const current = (page) => page.$$eval("#list .current", (nodes) => nodes.map((node) => Number(node.dataset.row)));
const nextFrame = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
const brightness = (colour) => colour.match(/\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 3;

// The page of 10,000 rows takes long to open: the checks of it share one, and each leaves what others look at as it was.
let many = null;
async function opened(browser, name) {
  if (name !== "many") return open(browser, address(name));
  if (many === null) many = await open(browser, address(name));
  return many;
}

async function slide(page, value) {
  await page.locator("#slider").fill(String(value));
  await nextFrame(page);
}

const checks = {
  async "every page opens as the fit found it, without an error or a request, and fits the window"(browser) {
    for (const name of PAGES) {
      const { page, context, seen } = await opened(browser, name);
      const facts = await factsOf(page);
      assert.equal(await page.locator("#reset").isDisabled(), true);
      for (const [width, colorScheme] of [[400, "dark"], [1280, "light"]]) {
        await page.setViewportSize({ width, height: 900 });
        await page.emulateMedia({ colorScheme });
        await nextFrame(page);
        assert.deepEqual(await rowsListed(page), facts.scores.flagged.slice(0, 24), name);
        for (const map of ["before", "after"]) assert.equal(await dotsFlagged(page, map), facts.n_flagged, name);
        assert.match(await text(page, "#count"), new RegExp(`${facts.n_flagged} of `));
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `${name} is ${wide} px too wide at ${width} px`);
        await slide(page, 300);
        await page.click("#reset");
        await nextFrame(page);
      }
      assert.deepEqual(seen, { errors: [], requests: [] }, name);
      if (context !== many?.context) await context.close();
    }
  },

  async "the slider moves the flags everywhere, and the button puts them back"(browser) {
    const { page } = await open(browser, address("curves"));
    const facts = await factsOf(page);
    await slide(page, 0);
    assert.match(await text(page, "#count"), /80 of 80 rows would be flagged, 100.0 %/);
    assert.equal(await dotsFlagged(page, "before"), 80);
    assert.equal((await rowsListed(page)).length, 24);
    await page.click("#more");
    assert.equal((await rowsListed(page)).length, 48);
    await slide(page, 1000);
    assert.match(await text(page, "#count"), /0 of 80 rows would be flagged/);
    assert.equal(await dotsFlagged(page, "after"), 0);
    assert.match(await text(page, "#list"), /No row is above the threshold/);
    await page.click("#reset");
    await nextFrame(page);
    assert.deepEqual(await rowsListed(page), facts.scores.flagged);
    assert.equal(await dotsFlagged(page, "after"), facts.n_flagged);
  },

  async "the rows above the threshold are counted and listed"(browser) {
    const { page } = await open(browser, address("table"));
    const { values, rows } = (await factsOf(page)).scores;
    for (const place of [150, 400, 600, 850]) {
      await slide(page, place);
      const [, threshold, count] = (await text(page, "#count")).replace("−", "-").match(/Above (\S+): (\d+) of/);
      const near = 1e-3 * Math.abs(threshold); // the threshold is shown with four digits
      assert.ok(values.filter((value) => value > Number(threshold) + near).length <= Number(count));
      assert.ok(values.filter((value) => value > Number(threshold) - near).length >= Number(count));
      assert.deepEqual(await rowsListed(page), rows.slice(0, Math.min(24, Number(count))));
    }
  },

  async "a click on the histogram sets the threshold there"(browser) {
    const { page } = await open(browser, address("curves"));
    await page.locator("#histogram svg").scrollIntoViewIfNeeded();
    const box = await page.locator("#histogram svg").boundingBox();
    const at = async () => Number(await page.locator("#histogram line.threshold").getAttribute("x1"));
    await page.mouse.click(box.x + 200, box.y + 100);
    assert.ok(Math.abs((await at()) - 200) < 2, `the line is at ${await at()}`);
    const value = Number(await page.locator("#slider").inputValue());
    assert.ok(Math.abs(value - (1000 * (200 - 44)) / (box.width - 56)) < 3, `the slider is at ${value}`);
  },

  async "arrow keys on the slider flag one row more, or fewer, in the end"(browser) {
    const { page } = await open(browser, address("table"));
    await page.focus("#slider");
    for (let i = 0; i < 40; i++) await page.keyboard.press("PageDown");
    await nextFrame(page);
    assert.match(await text(page, "#count"), /120 of 120/);
    await page.keyboard.press("End");
    await nextFrame(page);
    assert.match(await text(page, "#count"), /0 of 120/);
    assert.equal(await page.locator("#slider").getAttribute("aria-valuetext"), await text(page, "#count"));
  },

  async "pointing at a row in the list highlights it everywhere"(browser) {
    for (const name of ["table", "curves", "pictures"]) {
      const { page, context } = await open(browser, address(name));
      const facts = await factsOf(page);
      const row = facts.scores.flagged[1];
      await page.locator(`#list [data-row="${row}"]`).hover();
      assert.deepEqual(await current(page), [row]);
      assert.equal(await page.locator("#histogram .marker").getAttribute("visibility"), "visible");
      for (const map of ["before", "after"]) {
        assert.equal(await page.locator(`#map-${map} .ring`).getAttribute("visibility"), "visible");
      }
      assert.match(await text(page, "#inspector"), /score .* · flagged/);
      await context.close();
    }
  },

  async "pointing at the map highlights the row in the list"(browser) {
    const { page } = await open(browser, address("curves"));
    const facts = await factsOf(page);
    await page.locator("#map-before").scrollIntoViewIfNeeded();
    const box = await page.locator("#map-before svg").boundingBox();
    const dots = page.locator("#map-before .dot.flagged"); // drawn from the best to the worst
    const place = await dots.last().evaluate((dot) => [dot.cx.baseVal.value, dot.cy.baseVal.value]);
    await page.mouse.move(box.x + place[0], box.y + place[1]);
    assert.deepEqual(await current(page), [facts.scores.flagged[0]]);
    const rings = await page.$$eval(".ring", (nodes) => nodes.map((node) => [node.cx.baseVal.value, node.cy.baseVal.value]));
    assert.deepEqual(rings[0], place);
  },

  async "rows and maps can be walked through by keyboard"(browser) {
    const { page } = await open(browser, address("curves"));
    const flagged = (await factsOf(page)).scores.flagged;
    await page.focus("#slider");
    for (const id of ["map-before", "map-after"]) {
      await page.keyboard.press("Tab");
      assert.equal(await page.evaluate(() => document.activeElement.id), id);
    }
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    assert.deepEqual(await current(page), [flagged[1]]);
    await page.keyboard.press("Tab");
    const focused = () => page.evaluate(() => Number(document.activeElement.dataset.row));
    assert.equal(await focused(), flagged[0]);
    await page.keyboard.press("ArrowDown");
    assert.equal(await focused(), flagged[1]);
    assert.deepEqual(await current(page), [flagged[1]]);
    await page.keyboard.press("End");
    assert.equal(await focused(), flagged[flagged.length - 1]);
    await page.keyboard.press("Home");
    assert.equal(await focused(), flagged[0]);
    assert.equal(await page.locator("#list [tabindex='0']").count(), 1);
  },

  async "dark follows the system, the button, and never the paper"(browser) {
    const { page } = await open(browser, address("table"));
    assert.ok(brightness(await background(page)) > 230);
    const barInLight = await page.$eval("path.bar.flagged", (bar) => getComputedStyle(bar).fill);
    await page.emulateMedia({ colorScheme: "dark" });
    assert.ok(brightness(await background(page)) < 40);
    assert.notEqual(await page.$eval("path.bar.flagged", (bar) => getComputedStyle(bar).fill), barInLight);
    await page.click("#theme");
    assert.ok(brightness(await background(page)) > 230);
    await page.click("#theme");
    assert.ok(brightness(await background(page)) < 40);
    await page.emulateMedia({ colorScheme: "dark", media: "print" });
    assert.ok(brightness(await background(page)) > 230);
    assert.ok(brightness(await page.$eval("h1", (node) => getComputedStyle(node).color)) < 60);
    for (const id of ["#slider", "#theme", "#print", "#inspector"]) assert.equal(await page.isVisible(id), false, id);
    assert.equal(await page.isVisible("#histogram svg"), true);
    assert.ok((await page.pdf()).length > 10_000);
  },

  async "paper has the first 200 rows and says how many are left, then the page is as it was"(browser) {
    const { page } = await opened(browser, "many");
    const { n_flagged: flagged } = await factsOf(page);
    assert.ok(flagged > 200);
    const shown = await rowsListed(page);
    await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
    assert.equal((await rowsListed(page)).length, 200);
    assert.equal(await text(page, "#more"), `${flagged - 200} more rows are not printed`);
    await page.evaluate(() => dispatchEvent(new Event("afterprint")));
    assert.deepEqual(await rowsListed(page), shown);
  },

  async "hostile names are text"(browser) {
    let dialogs = 0;
    const { page } = await open(browser, address("table"));
    page.on("dialog", () => dialogs++);
    const facts = await factsOf(page);
    await page.locator("#list [data-row]").first().hover();
    assert.equal(await text(page, "#list thead th:last-child"), facts.rows.columns[1]);
    const name = `row ${facts.scores.rows[0]} · ${facts.scores.labels[0]}`;
    assert.equal(await text(page, "#list .name"), name);
    assert.equal(await text(page, "#inspector .name"), name);
    assert.equal(await text(page, "#changes h3"), name);
    assert.equal(await page.locator("img, iframe, b").count(), 0);
    assert.equal(dialogs, 0);
  },

  async "the policy stops other scripts and all requests"(browser) {
    const { page, seen } = await open(browser, address("table"));
    const ran = await page.evaluate(() => {
      const script = document.createElement("script");
      script.textContent = "window.strange = true";
      document.body.append(script);
      return Boolean(window.strange);
    });
    assert.equal(ran, false);
    assert.equal(await page.evaluate(() => fetch("http://127.0.0.1:9/").then(() => "went", () => "stopped")), "stopped");
    assert.ok(seen.errors.some((message) => /Content Security Policy/.test(message)));
  },

  async "changed cells are marked, with what they were"(browser) {
    const { page } = await open(browser, address("table"));
    const worst = (await factsOf(page)).rows.shown[0];
    const cells = page.locator("#list tbody tr").first().locator("td");
    assert.equal(await cells.count(), 2);
    for (const j of worst.marked) {
      const was = Number((await cells.nth(j).locator("del").textContent()).replace("−", "-"));
      assert.ok(Math.abs(was - worst.before[j]) <= 1e-3 * Math.abs(worst.before[j]));
    }
    assert.equal(await page.locator("#list tbody tr").first().locator("td.marked").count(), worst.marked.length);
  },

  async "pictures show the pixels of the data"(browser) {
    const { page } = await open(browser, address("pictures"));
    const worst = (await factsOf(page)).rows.shown[0];
    const canvases = page.locator("#list .card").first().locator("canvas");
    assert.equal(await canvases.count(), 3);
    for (const [i, name] of [[0, "before"], [1, "after"]]) {
      const pixels = await canvases.nth(i).evaluate((node) => {
        const { data } = node.getContext("2d").getImageData(0, 0, node.width, node.height);
        return [...data].filter((_, at) => at % 4 === 0);
      });
      assert.deepEqual(pixels, [...Buffer.from(worst[name], "base64")]);
    }
  },

  async "curves have a line before and one after"(browser) {
    const { page } = await open(browser, address("curves"));
    const card = page.locator("#list .card").first();
    const points = await card.locator("path.before, path.after").evaluateAll((paths) => paths.map((path) => path.getTotalLength()));
    assert.equal(points.length, 2);
    assert.ok(points.every((length) => length > 100));
  },

  async "the threshold of the slider is a command"(browser) {
    const { page } = await open(browser, address("file"));
    await slide(page, 300);
    const wanted = Number((await text(page, "#count")).match(/: (\d+) of/)[1]);
    const share = Number((wanted / 120).toPrecision(4));
    assert.equal(await text(page, "#advice code"), `kernmend mend 'my table.csv' --contamination ${share}`);
    await page.click("#reset");
    assert.equal(await page.isVisible("#advice"), false);
  },

  async "columns come first, with what was passed over and why"(browser) {
    const { page } = await open(browser, address("file"));
    const first = await page.$$eval("main section", (nodes) => nodes[0].textContent);
    assert.match(first, /3 columns looked at, 2 passed over/);
    const cells = await page.$$eval("#columns tbody tr", (rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent.trim())));
    assert.deepEqual(cells[0].slice(0, 2), ["x", "numbers, 3 decimals"]);
    assert.deepEqual(cells.slice(3), [["name", "passed over: names the rows"], ["site_id", "passed over: codes"]]);
  },

  async "cells and rows are rejected and accepted by pointer, and taken back"(browser) {
    const { page } = await open(browser, address("file"));
    const total = (await factsOf(page)).changes.lines.length;
    const decided = () => text(page, "#decided");
    assert.equal(await decided(), `${total} of ${total} changes accepted, 0 rejected`);
    assert.equal(await page.locator("#undo").isDisabled(), true);
    const card = page.locator(".changed-row").first();
    const cells = await card.locator(".cell-change").count();
    await card.locator(".decide").first().click();
    assert.equal(await decided(), `${total - 1} of ${total} changes accepted, 1 rejected`);
    assert.equal(await card.locator(".decided").textContent(), `1 of ${cells} rejected`);
    assert.equal(await card.locator(".decide").first().getAttribute("aria-pressed"), "false");
    await card.locator(".whole").click();
    assert.equal(await decided(), `${total - cells} of ${total} changes accepted, ${cells} rejected`);
    assert.equal(await card.locator(".whole").textContent(), "Accept row");
    await page.selectOption("#by-kind", "rejected");
    assert.equal(await page.locator(".changed-row").count(), 1);
    await page.selectOption("#by-kind", "");
    await page.click("#undo");
    await page.click("#undo");
    assert.equal(await decided(), `${total} of ${total} changes accepted, 0 rejected`);
    await page.click("#reject-shown");
    assert.equal(await decided(), `0 of ${total} changes accepted, ${total} rejected`);
    await page.click("#undo");
    assert.equal(await page.locator("#undo").isDisabled(), true);
  },

  async "changes are decided on by keyboard"(browser) {
    const { page } = await open(browser, address("file"));
    const total = (await factsOf(page)).changes.lines.length;
    await page.locator(".changed-row .whole").first().focus();
    await page.keyboard.press("ArrowDown");
    const change = await page.evaluate(() => document.activeElement.closest("[data-change]").dataset.change);
    assert.equal(change, await page.locator("[data-change]").first().getAttribute("data-change"));
    await page.keyboard.press("r");
    assert.match(await text(page, "#decided"), /, 1 rejected/);
    await page.keyboard.press("a");
    assert.match(await text(page, "#decided"), /, 0 rejected/);
    await page.keyboard.press("Shift+R");
    const cells = await page.locator(".changed-row").first().locator(".cell-change").count();
    assert.match(await text(page, "#decided"), new RegExp(`, ${cells} rejected`));
    await page.keyboard.press("u");
    await page.keyboard.press("Control+z");
    assert.match(await text(page, "#decided"), new RegExp(`${total - 1} of ${total} changes accepted, 1 rejected`));
    await page.keyboard.press("u");
    assert.match(await text(page, "#decided"), new RegExp(`${total} of ${total} changes accepted`));
  },

  async "changes are filtered by column and kind, filled ones of rows not flagged among them"(browser) {
    const { page } = await open(browser, address("file"));
    await page.selectOption("#by-column", "y");
    const columns = await page.$$eval("#changes .column", (nodes) => [...new Set(nodes.map((node) => node.textContent))]);
    assert.deepEqual(columns, ["y"]);
    await page.selectOption("#by-kind", "unflagged");
    assert.equal(await page.locator(".changed-row").count(), 1);
    assert.match(await text(page, ".changed-row"), /row 50 · p50.*filled in, not flagged/);
    await page.selectOption("#by-column", "x");
    assert.match(await text(page, "#changes"), /No such change/);
  },

  async "intervals are drawn, and nearest good rows lead to the map"(browser) {
    const { page } = await open(browser, address("file"));
    const worst = (await factsOf(page)).changes.lines[0];
    const [old, now, low, high] = worst[11];
    assert.ok(low <= now && now <= high);
    const picture = page.locator(".interval").first();
    const at = async (selector, name) => Number(await picture.locator(selector).getAttribute(name));
    const [a, dot, b] = [await at(".between", "x1"), await at(".new", "cx"), await at(".between", "x2")];
    assert.ok(a <= dot && dot <= b, `${a} ${dot} ${b}`);
    assert.equal(await picture.locator(".old").count(), old === null ? 0 : 1);
    const near = page.locator(".near .link").first();
    await near.click();
    assert.match(await near.textContent(), /^row \d+ · p\d+$/);
    assert.equal(await text(page, "#inspector .name"), await near.textContent());
  },

  async "decisions are downloaded as a change log"(browser) {
    const { page, seen } = await open(browser, address("file"), { acceptDownloads: true });
    await page.locator(".cell-change .decide").first().click();
    const [file] = await Promise.all([page.waitForEvent("download"), page.click("#download")]);
    assert.equal(file.suggestedFilename(), "my table.decisions.csv");
    await file.saveAs(join(folder, "decisions.csv"));
    assert.equal(await text(page, "#patch"), "kernmend patch 'my table.csv' 'my table.decisions.csv' -o 'my table.reviewed.csv'");
    assert.deepEqual(seen.errors, []);
  },

  async "many changes stay quick"(browser) {
    const { page } = await opened(browser, "many");
    const facts = await factsOf(page);
    assert.ok(facts.changes.lines.length < facts.changes.total);
    assert.match(await text(page, "#review .intro"), /The page holds [\d,]+ of [\d,]+ changes/);
    assert.equal(await page.locator(".changed-row").count(), 12);
    await page.click("#more-changes");
    assert.equal(await page.locator(".changed-row").count(), 36);
    await page.click("#reject-shown");
    assert.match(await text(page, "#decided"), /^0 of /);
  },

  async "ten thousand rows follow the slider"(browser) {
    const { page } = await opened(browser, "many");
    await slide(page, 0);
    assert.match(await text(page, "#count"), /10,000 of 10,000/);
    assert.equal(await dotsFlagged(page, "after"), 2000);
    assert.match(await text(page, "#more"), /24 more of 9,976/);
    assert.match(await text(page, "#rows .intro"), /2,000 of 10,000 rows/);
  },
};

const browser = await launch();
const results = {};
try {
  for (const [name, check] of Object.entries(checks)) {
    try {
      await check(browser);
      results[name] = null;
    } catch (error) {
      results[name] = String(error.stack ?? error);
    }
    for (const context of browser.contexts()) if (context !== many?.context) await context.close();
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(results));
