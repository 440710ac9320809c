import type { Bar, Panel } from "../benchmark.ts";
import { formatNumber, median, quartiles } from "../statistics.ts";

const width = 760;
const labelWidth = 260;
/** For the value at the end of a bar. */
const valueWidth = 70;
const barWidth = width - labelWidth - valueWidth;
const rowHeight = 26;
const titleHeight = 34;
const barHeight = 16;
/** Readable on light and dark pages. */
const colours = { text: "#7a828e", subject: "#2f81f7", peer: "#8b949e", spread: "#d29922" };

/** Draws medians as horizontal bars, with a line for the quartiles. The first bar of each panel is highlighted. */
export function drawChart(title: string, panels: readonly Panel[]): string {
  const heights = panels.map(({ bars }) => titleHeight + bars.length * rowHeight);
  const height = heights.reduce((sum, each) => sum + each, 0) + 8;
  const drawn = panels.map((panel, at) =>
    drawPanel(
      panel,
      heights.slice(0, at).reduce((sum, each) => sum + each, 0),
    ),
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" font-family="system-ui, sans-serif" font-size="13" fill="${colours.text}">
<title>${escape(title)}</title>
${drawn.join("\n")}
</svg>
`;
}

function drawPanel({ title, bars }: Panel, top: number): string {
  const scale = barWidth / Math.max(...bars.map(({ values }) => Math.max(median(values), quartiles(values)[1])));
  const rows = bars.map((bar, at) => drawBar(bar, top + titleHeight + at * rowHeight, scale, at === 0));
  return `<text x="0" y="${top + 22}" font-weight="600">${escape(title)}</text>\n${rows.join("\n")}`;
}

function drawBar({ label, values }: Bar, top: number, scale: number, isSubject: boolean): string {
  const value = median(values);
  const [low, high] = quartiles(values).map((each) => labelWidth + each * scale);
  const middle = top + barHeight / 2;
  const end = Math.max(labelWidth + value * scale, high ?? 0);
  const spread =
    values.length > 1
      ? `<line x1="${round(low)}" x2="${round(high)}" y1="${middle}" y2="${middle}" stroke="${colours.spread}" stroke-width="2"/>`
      : "";
  return `<text x="${labelWidth - 8}" y="${middle + 4}" text-anchor="end">${escape(label)}</text><rect x="${labelWidth}" y="${top}" width="${round(value * scale)}" height="${barHeight}" rx="2" fill="${isSubject ? colours.subject : colours.peer}"/>${spread}<text x="${round(end + 6)}" y="${middle + 4}">${formatNumber(value)}</text>`;
}

function round(value = 0): string {
  return value.toFixed(1);
}

function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
