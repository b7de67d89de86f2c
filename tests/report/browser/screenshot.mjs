// node screenshot.mjs PAGE PICTURE [width=1280] [height=0: whole page] [light|dark] [selector to point at]
import { pathToFileURL } from "node:url";
import { launch, open } from "./browser.mjs";

const [source, target, width = "1280", height = "0", colorScheme = "light", selector] = process.argv.slice(2);
const browser = await launch();
try {
  const viewport = { width: Number(width), height: Number(height) || 900 };
  const { page, seen } = await open(browser, pathToFileURL(source).href, { viewport, colorScheme, deviceScaleFactor: 1.5 });
  if (selector) await page.locator(selector).first().dispatchEvent("pointerover");
  await page.waitForTimeout(150); // one or two frames
  await page.screenshot({ path: target, fullPage: height === "0" });
  if (seen.errors.length) throw new Error(seen.errors.join("\n"));
} finally {
  await browser.close();
}
