import type { ChangeMark } from "./elements.ts";

/** The colours of everything but nodes, which have the colours of Node-RED's palette in both themes. */
export type Theme = {
  readonly background: string;
  readonly grid: string;
  readonly wire: string;
  readonly disabledWire: string;
  readonly link: string;
  readonly border: string;
  readonly port: string;
  readonly label: string;
  readonly icon: string;
  readonly text: string;
  readonly panel: string;
  readonly group: string;
  readonly selection: string;
  readonly highlight: string;
  readonly error: string;
  readonly onError: string;
  readonly status: Readonly<Record<string, string>>;
  readonly change: Readonly<Record<ChangeMark, string>>;
};

const status = {
  red: "#dc3e42",
  green: "#30a46c",
  yellow: "#f9df31",
  blue: "#53a3f3",
  grey: "#d3d3d3",
  gray: "#d3d3d3",
};

export const lightTheme: Theme = {
  background: "#ffffff",
  grid: "#eeeeee",
  wire: "#999999",
  disabledWire: "#cccccc",
  link: "#aaaaaa",
  border: "#999999",
  port: "#d9d9d9",
  label: "#333333",
  icon: "#ffffff",
  text: "#555555",
  panel: "#eeeeee",
  group: "#767676",
  selection: "#0074d9",
  highlight: "#b35900",
  error: "#c62828",
  onError: "#ffffff",
  status: { ...status, yellow: "#d9b800", grey: "#a8a8a8", gray: "#a8a8a8" },
  change: { added: "#1a7f37", removed: "#c62828", changed: "#9a6700", moved: "#6639ba" },
};

export const darkTheme: Theme = {
  background: "#16191d",
  grid: "#22262b",
  wire: "#7d868f",
  disabledWire: "#4a5057",
  link: "#6a737b",
  border: "#5d656d",
  port: "#aab2ba",
  label: "#222222",
  icon: "#ffffff",
  text: "#b8c0c8",
  panel: "#2b3036",
  group: "#9aa3ab",
  selection: "#4cb0ff",
  highlight: "#ffb454",
  error: "#e5484d",
  onError: "#ffffff",
  status,
  change: { added: "#3fb950", removed: "#ff6b6b", changed: "#d9a520", moved: "#b18cff" },
};

/** The sign of a change beside its colour. */
export const changeSigns: Readonly<Record<ChangeMark, string>> = { added: "+", removed: "−", changed: "~", moved: "→" };

/**
 * Returns the colour if the text, which is untrusted, is a valid colour and nothing else; otherwise the alternative.
 */
export function safeColor(text: string, otherwise: string): string {
  return /^(#[0-9a-f]{3,8}|[a-z]{3,24}|rgba?\([0-9., %]{5,40}\))$/i.test(text) ? text : otherwise;
}
