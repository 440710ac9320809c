import { grow, measures, union, type Box, type Curve } from "./geometry.ts";
import type { IconName } from "./icons.ts";

export type MeasureText = (text: string) => number;

export type ChangeMark = "added" | "removed" | "changed" | "moved";

type Base = {
  /** The id of the node, or `<id>:<output>:<id>` for a wire. Unique among the elements of its kind. */
  readonly id: string;
  readonly box: Box;
  readonly change?: ChangeMark;
};

export type GroupElement = Base & {
  readonly kind: "group";
  readonly stroke: string | undefined;
  readonly strokeOpacity: number;
  readonly fill: string | undefined;
  readonly fillOpacity: number;
  readonly label: readonly string[];
  readonly labelColor: string | undefined;
  /** A corner or the middle of the upper or lower side, as in `nw`. */
  readonly labelPosition: string;
  readonly isDisabled: boolean;
};

export type WireElement = Base & {
  /** `link`: the invisible wire between link nodes, which is shown if one of them is selected. */
  readonly kind: "wire" | "link";
  readonly curve: Curve;
  readonly from: string;
  readonly to: string;
  readonly isDisabled: boolean;
};

export type StubElement = Base & {
  readonly kind: "stub";
  /** The link node. */
  readonly of: string;
  readonly side: "left" | "right";
  readonly label: string;
};

export type NodeElement = Base & {
  readonly kind: "node";
  readonly type: string;
  readonly color: string;
  readonly icon: IconName | undefined;
  readonly iconSide: "left" | "right";
  /** Empty: not shown. */
  readonly label: readonly string[];
  readonly isItalic: boolean;
  readonly inputs: number;
  readonly outputs: number;
  readonly button: "press" | "on" | "off" | undefined;
  readonly isDisabled: boolean;
};

export type JunctionElement = Base & { readonly kind: "junction"; readonly isDisabled: boolean };

export type SubflowPortElement = Base & {
  readonly kind: "port";
  readonly direction: "in" | "out" | "status";
  readonly label: string;
  /** The number of the output, from 1. */
  readonly number: number | undefined;
};

export type MoveElement = Base & { readonly kind: "move"; readonly from: Box; readonly to: Box };

export type Element =
  | GroupElement
  | WireElement
  | StubElement
  | NodeElement
  | JunctionElement
  | SubflowPortElement
  | MoveElement;

export type Drawing = {
  readonly container: string;
  readonly elements: readonly Element[];
  /** Undefined: nothing to see. */
  readonly bounds: Box | undefined;
};

/** Returns the box that contains all visible elements. */
export function boundsOf(elements: readonly Element[]): Box | undefined {
  const visible = elements.filter(({ kind }) => kind !== "link" && kind !== "stub");
  const box = union(visible.map((each) => each.box));
  return box && grow(box, 2 * measures.grid);
}
