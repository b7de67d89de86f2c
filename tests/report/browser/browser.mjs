// Debian's Chromium, headless, with everything that would reach for the network switched off.
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

export const EXECUTABLE = [process.env.KERNMEND_CHROMIUM, "/usr/bin/chromium", "/usr/bin/google-chrome"].find(
  (path) => path && existsSync(path),
);

export const launch = () =>
  chromium.launch({
    executablePath: EXECUTABLE,
    args: [
      "--no-sandbox", // CI runs as root
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });

// A page that remembers its errors, and its requests for anything but itself.
export async function open(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: "light", ...options });
  const page = await context.newPage();
  const seen = { errors: [], requests: [] };
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && seen.errors.push(message.text()));
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("request", (request) => request.url() !== url && seen.requests.push(request.url()));
  await page.goto(url);
  await page.waitForSelector("html[data-ready=yes]");
  return { page, context, seen };
}
