/**
 * The glyphs of nodes, in a square of 24 by 24, drawn with a white pen of two units. They resemble Node-RED's icons, so that its users
 * recognise them. `fill`: the shape is filled.
 */
type Glyph = { readonly path: string; readonly fill?: true };

const glyphs = {
  alert: { path: "M12 3 22 20H2ZM12 9v5M12 16.5v1" },
  "arrow-in": { path: "M3 12h14M12 6l6 6-6 6M21 4v16" },
  batch: { path: "M3 5h8v4H3ZM3 15h8v4H3ZM15 12h6M18 9l3 3-3 3" },
  bridge: { path: "M6 9q2 3 0 6M10 6q4 6 0 12M14 3q7 9 0 18" },
  "bridge-dash": { path: "M6 9q2 3 0 6M10 6q4 6 0 12M14 3q3.5 4 3.5 7M14 21q3.5-4 3.5-7" },
  cog: {
    path: "M12 8a4 4 0 1 0 .01 0ZM12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M5 19l2-2M17 7l2-2M12 5a7 7 0 1 0 .01 0Z",
  },
  comment: { path: "M3 5h18v11H11l-4 4v-4H3Z" },
  debug: { path: "M5 4h14M5 8h14M5 12h14M5 16h14M5 20h14" },
  "file-in": { path: "M12 3H5v18h14V10ZM12 3v7h7M8 15h7M12 12l3 3-3 3" },
  "file-out": { path: "M12 3H5v18h14V10ZM12 3v7h7M16 15H8M11 12l-3 3 3 3" },
  function: { path: "M18 5q-1-2-3-2-2.5 0-3 4l-1.5 10q-.5 4-3 4-2 0-3-2M6 11h12" },
  globe: { path: "M12 3a9 9 0 1 0 .01 0ZM3 12h18M12 3q-8 9 0 18M12 3q8 9 0 18" },
  inject: { path: "M3 7h8V2.5L21 12 11 21.5V17H3v-2.5h5v-5H3Z", fill: true },
  join: { path: "M3 4h4v4H3ZM3 10h4v4H3ZM3 16h4v4H3ZM10 12h5M17 9h4v6h-4Z" },
  "link-call": { path: "M3 8h10M10 4l4 4-4 4M21 16H11M14 12l-4 4 4 4" },
  "link-out": { path: "M3 9h9V4l9 8-9 8v-5H3M3 10a2.5 2.5 0 1 1 0 4" },
  "link-return": { path: "M4 4v9h13M12 7l6 6-6 6" },
  "parser-csv": { path: "M4 6h3v3H4ZM10 6h3v3h-3ZM16 6h4M9 12q0 2-1.5 3M15 12q0 2-1.5 3M4 18h16" },
  "parser-html": { path: "M8 6l-6 6 6 6M16 6l6 6-6 6M14 4l-4 16" },
  "parser-json": {
    path: "M9 4Q6 4 6 7v2q0 3-3 3 3 0 3 3v2q0 3 3 3M15 4q3 0 3 3v2q0 3 3 3-3 0-3 3v2q0 3-3 3M10.5 12h.5M13 12h.5",
  },
  "parser-xml": { path: "M8 6l-6 6 6 6M16 6l6 6-6 6M12 8v8" },
  "parser-yaml": { path: "M4 5h3M10 5h10M8 12h3M14 12h6M8 19h3M14 19h6" },
  range: { path: "M4 4v16M20 8v8M4 4l16 4M4 20l16-4" },
  rbe: { path: "M3 17h4V7h10v10h4M12 12h.01" },
  sort: { path: "M4 5h6M4 10h9M4 15h12M4 20h15M20 3v9M17 9l3 3 3-3" },
  split: { path: "M3 9h4v6H3ZM10 12h4M17 4h4v4h-4ZM17 10h4v4h-4ZM17 16h4v4h-4Z" },
  status: { path: "M2 13h5l3-8 4 14 3-6h5" },
  subflow: { path: "M3 4h8v5H3ZM13 15h8v5h-8ZM11 6.5h4q3 0 3 3 0 2.5-3 2.5H9q-3 0-3 3 0 2.5 3 2.5h4" },
  swap: { path: "M2 6h5l8 12h6M18 15l3 3-3 3M2 18h5l2-3M13 9l2-3h6M18 3l3 3-3 3" },
  switch: { path: "M2 12h6l4-6h9M18 3l3 3-3 3M8 12l4 6h9M18 15l3 3-3 3" },
  template: { path: "M10 3Q7 3 7 6v3q0 3-3 3 3 0 3 3v3q0 3 3 3M14 3q3 0 3 3v3q0 3 3 3-3 0-3 3v3q0 3-3 3" },
  timer: { path: "M15 3.5A9 9 0 1 1 5 6M12 3h.01M12 13 6.5 7" },
  trigger: { path: "M3 20h4V5h8v15h6" },
  watch: { path: "M2 12q10-12 20 0-10 12-20 0ZM12 9a3 3 0 1 0 .01 0Z" },
} satisfies Readonly<Record<string, Glyph>>;

export type IconName = keyof typeof glyphs;

export function isIconName(name: string): name is IconName {
  return Object.hasOwn(glyphs, name);
}

export function glyphOf(name: IconName): Glyph {
  return glyphs[name];
}
