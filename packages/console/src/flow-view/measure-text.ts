import type { MeasureText } from "./elements.ts";
import { createMeasureText } from "./painter.ts";

let sharedMeasure: MeasureText | undefined;

/** Keeps the widths that it has measured. */
export function measureText(): MeasureText {
  if (sharedMeasure === undefined) {
    const context = document.createElement("canvas").getContext("2d");
    if (context === null) {
      throw new TypeError("the browser has no 2D canvas");
    }
    sharedMeasure = createMeasureText(context);
  }
  return sharedMeasure;
}
