import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { drawContainer } from "../../../packages/console/src/flow-view/drawing.ts";
import { parseFlowNodes } from "../../../packages/console/src/flow-view/flow-nodes.ts";
import type { Box } from "../../../packages/console/src/flow-view/geometry.ts";
import { loadExamples } from "../../../packages/console/test/flow-view/node-red.ts";
import { type Browser, missingBrowser, openBrowser } from "../browser.ts";
import { deploy } from "../deploy.ts";
import { Editor, toolsUrl } from "../editor.ts";
import type { Node } from "../flow-builders.ts";
import { type Service, startService, withoutRuntime } from "../service.ts";
import { Console } from "./console.ts";

/** A folder for pictures of the console beside those of the editor, to be looked at. */
const pictures = process.env["FLOWGATE_FLOW_PICTURES"];

/**
 * All examples of Node-RED, on a tab that is disabled: nothing of them has to run. They lie upon one another, as to show a tab for each takes
 * most of the time; for pictures, each has a tab of its own.
 */
const examples = loadExamples().map(([name, flows], index) => {
  const tab = pictures === undefined ? "examples" : `example-${index}`;
  const subflows = new Set(flows.filter(({ type }) => type === "subflow").map(({ id }) => id));
  const nodes = flows.filter(({ type }) => type !== "tab");
  const text = nodes.reduce(
    (json, { id }) =>
      json.replaceAll(`"${id}"`, `"${index}-${id}"`).replaceAll(`"subflow:${id}"`, `"subflow:${index}-${id}"`),
    JSON.stringify(nodes.map((node) => (isOnTab(node, subflows) ? { ...node, z: tab } : node))),
  );
  return { tab: { id: tab, type: "tab", label: name, disabled: true }, nodes: JSON.parse(text) as Node[] };
});
const tabs = [...new Map(examples.map(({ tab }) => [tab.id, tab])).values()];
const allFlows: readonly Node[] = [...tabs, ...examples.flatMap(({ nodes }) => nodes)];

/** The examples do not contain the tabs of their nodes. */
function isOnTab(node: Node, subflows: ReadonlySet<string>): boolean {
  return node["x"] !== undefined && !subflows.has(String(node["z"]));
}

describe.skipIf(missingBrowser !== undefined)("drawings of flows beside Node-RED's editor", () => {
  let service: Service;
  let browser: Browser;
  beforeAll(async () => {
    const config = { ...withoutRuntime, nodeRed: { port: 0, editor: true } };
    [service, browser] = await Promise.all([startService({ config }), openBrowser()]);
    await deploy(service, { flows: allFlows });
  });
  afterAll(async () => {
    await Promise.all([service?.[Symbol.asyncDispose](), browser?.[Symbol.asyncDispose]()]);
  });

  test("has the nodes of Node-RED's examples in the places and sizes of the editor", async () => {
    await using editor = await Editor.open(browser, toolsUrl(service));
    await editor.untilLoaded();
    const nodes = parseFlowNodes(allFlows);
    const widths = await measure(
      editor.page,
      tabs.flatMap(({ id }) => textsOf(nodes, id)),
    );
    let count = 0;
    for (const { id: tab } of tabs) {
      const { elements } = drawContainer(nodes, tab, (text) => widths[text] ?? 0);
      const drawn = elements.filter(({ kind }) => kind === "node" || kind === "junction" || kind === "group");
      const boxes = Object.fromEntries(drawn.map(({ id, box }) => [id, formatBox(box)]));
      const shown = await readEditor(editor.page, tab);
      const expected = Object.fromEntries(Object.entries(shown).map(([id, box]) => [id, formatBox(box)]));
      expect({ tab, boxes }).toEqual({ tab, boxes: expected });
      count += drawn.length;
    }
    expect(count).toBeGreaterThan(500);
    await writePictures(editor.page, service, browser);
  });
});

/** Does nothing where no folder is named. */
async function writePictures(editor: Page, service: Service, browser: Browser): Promise<void> {
  if (pictures === undefined) {
    return;
  }
  await using console = await Console.open(service);
  await mkdir(pictures, { recursive: true });
  for (const { id: tab } of tabs) {
    await console.goto(`/flows/${tab}`);
    const canvas = console.page.locator(".flow-canvas");
    await canvas.waitFor();
    await readEditor(editor, tab);
    const both = [await editor.locator("#red-ui-workspace-chart").screenshot(), await canvas.screenshot()].map(
      (picture) => `<img style="width: 49%" src="data:image/png;base64,${picture.toString("base64")}">`,
    );
    await using page = await browser.openTab();
    await page.page.setContent(both.join(" "));
    await writeFile(join(pictures, `${tab}.png`), await page.page.screenshot({ fullPage: true }));
  }
}

function textsOf(nodes: ReturnType<typeof parseFlowNodes>, tab: string): string[] {
  const texts: string[] = [];
  drawContainer(nodes, tab, (text) => {
    texts.push(text);
    return 0;
  });
  return texts;
}

/** The widths of texts in the font of labels. */
function measure(page: Page, texts: readonly string[]): Promise<Record<string, number>> {
  return page.evaluate(`(() => {
    const context = document.createElement("canvas").getContext("2d");
    context.fontKerning = "normal";
    context.font = '14px "Helvetica Neue", Arial, Helvetica, sans-serif';
    const widthOf = (text) => Math.round(context.measureText(text).width);
    return Object.fromEntries(${JSON.stringify(texts)}.map((text) => [text, widthOf(text)]));
  })()`);
}

/** Shows a tab in the editor, and returns the boxes of what is on it. */
function readEditor(page: Page, tab: string): Promise<Record<string, Box>> {
  // The objects of the editor have no types.
  return page.evaluate(`(async () => {
    RED.workspaces.show(${JSON.stringify(tab)});
    for (let frame = 0; frame < 3; frame += 1) {
      await new Promise(requestAnimationFrame);
    }
    const z = ${JSON.stringify(tab)};
    const centered = [...RED.nodes.filterNodes({ z }), ...RED.nodes.junctions(z)].map(({ id, x, y, w, h }) => [
      id,
      { x: x - w / 2, y: y - h / 2, width: w, height: h },
    ]);
    const groups = RED.nodes.groups(z).map(({ id, x, y, w, h }) => [id, { x, y, width: w, height: h }]);
    return Object.fromEntries([...centered, ...groups]);
  })()`);
}

function formatBox({ x, y, width, height }: Box): string {
  return `${x},${y} ${width}x${height}`;
}
