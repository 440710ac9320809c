export type Point = { readonly x: number; readonly y: number };

/** `x` and `y` are of the top left corner. */
export type Box = Point & { readonly width: number; readonly height: number };

/**
 * The measures of Node-RED's workspace, in its units. Positions come from the configuration, so that a picture has the
 * proportions of the author's editor.
 */
export const measures = {
  node: { width: 100, height: 30, radius: 5 },
  /** The width is a multiple of this. */
  grid: 20,
  line: 24,
  port: { size: 10, distance: 13, room: 15 },
  icon: 30,
  subflowPort: 40,
  group: { margin: 26, line: 16, minimum: 40 },
} as const;

/**
 * Returns the size of a node with a label of `lines`, the widest of which has `textWidth`. Undefined: the node has no
 * label.
 */
export function nodeSize(
  label: { readonly lines: number; readonly textWidth: number } | undefined,
  ports: { readonly inputs: number; readonly outputs: number },
): { readonly width: number; readonly height: number } {
  const { node, port, grid, line } = measures;
  if (label === undefined) {
    return { width: node.height, height: Math.max(node.height, ports.outputs * port.room) };
  }
  const content = label.textWidth + 50 + (ports.inputs > 0 ? 7 : 0);
  return {
    width: Math.max(node.width, grid * Math.ceil(content / grid)),
    height: Math.max(6 + line * label.lines, ports.outputs * port.room, node.height),
  };
}

/** The vertical distance of an output from the centre of its node. */
export function outputOffset(port: number, outputs: number): number {
  return (port - (Math.max(outputs, 1) - 1) / 2) * measures.port.distance;
}

/** A path: where it begins, then for each cubic curve its two control points and its end. */
export type Curve = readonly number[];

/**
 * The curve that Node-RED draws for a wire: a simple one if it leads forward, an S if it leads back, and a loop below both nodes if it
 * leads back at the same height.
 */
export function wireCurve(from: Point, to: Point): Curve {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const { width, height } = measures.node;
  if (dx > 0) {
    const distance = Math.hypot(dx, dy);
    const reach = width * (distance < width ? 0.75 - 0.75 * ((width - distance) / width) : 0.75);
    return rounded([from.x, from.y, from.x + reach, from.y, to.x - reach, to.y, to.x, to.y]);
  }
  if (Math.abs(dy) < 10) {
    return loopBelow(from, to);
  }
  const scale = 0.4 - 0.2 * Math.max(0, (width - Math.min(Math.abs(dx), Math.abs(dy))) / width);
  const down = dy > 0;
  const bend = height / 2;
  const middle = { x: Math.floor(to.x - dx / 2), y: Math.floor(to.y - dy / 2) };
  const half = (to.y + middle.y) / 2;
  const inner = down ? Math.min : Math.max;
  const outer = down ? Math.max : Math.min;
  const sign = down ? 1 : -1;
  const right = { x: from.x + width * scale, y: inner(half - dy / 2, from.y + sign * bend) };
  const left = { x: to.x - width * scale, y: outer(half, to.y - sign * bend) };
  const first = { x: (from.x + right.x) / 2, y: from.y };
  const second = { x: right.x, y: outer(from.y, right.y - sign * bend) };
  const third = { x: first.x, y: inner(middle.y, right.y + sign * bend) };
  const fourth = { x: left.x, y: outer(middle.y, left.y - sign * bend) };
  const fifth = { x: (to.x + left.x) / 2, y: to.y };
  if (third.y === right.y + sign * bend) {
    if (Math.abs(dy) < bend * 10) {
      second.y = right.y - (sign * bend) / 2;
      fourth.y = left.y - (sign * bend) / 2;
    }
    third.x = right.x;
  }
  // A curve continues smoothly: its first control point mirrors the last one of the curve before it.
  const mirror = (control: Point, point: Point): Point => ({ x: 2 * point.x - control.x, y: 2 * point.y - control.y });
  return rounded(
    [from, first, second, right, mirror(second, right), third, middle, mirror(third, middle), fourth, left]
      .concat([mirror(fourth, left), fifth, to])
      .flatMap(({ x, y }) => [x, y]),
  );
}

function loopBelow(from: Point, to: Point): Curve {
  const bottom = Math.max(from.y, to.y) + 25;
  const [start, end] = [bottom - from.y, bottom - to.y];
  const [right, left] = [from.x + 25, to.x - 25];
  return rounded(
    [
      [from.x, from.y],
      [from.x + 15, from.y, right, from.y + 5, right, from.y + start / 2],
      [right, bottom - 5, from.x + 15, bottom, from.x, bottom],
      [from.x, bottom, to.x, bottom, to.x, bottom],
      [to.x - 15, bottom, left, bottom - 5, left, to.y + end / 2],
      [left, to.y + 5, to.x - 15, to.y, to.x, to.y],
    ].flat(),
  );
}

/** The box of the control points, which contains the curve. */
export function boxOfCurve(curve: Curve): Box {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let index = 0; index + 1 < curve.length; index += 2) {
    const [x, y] = [curve[index] ?? 0, curve[index + 1] ?? 0];
    [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
  }
  return { x: left, y: top, width: right - left, height: bottom - top };
}

export function union(boxes: Iterable<Box>): Box | undefined {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y, width, height } of boxes) {
    left = Math.min(left, x);
    top = Math.min(top, y);
    right = Math.max(right, x + width);
    bottom = Math.max(bottom, y + height);
  }
  return left <= right && top <= bottom ? { x: left, y: top, width: right - left, height: bottom - top } : undefined;
}

export function grow({ x, y, width, height }: Box, margin: number): Box {
  return { x: x - margin, y: y - margin, width: width + 2 * margin, height: height + 2 * margin };
}

export function intersects(one: Box, other: Box): boolean {
  return (
    one.x <= other.x + other.width &&
    other.x <= one.x + one.width &&
    one.y <= other.y + other.height &&
    other.y <= one.y + one.height
  );
}

export function contains({ x, y, width, height }: Box, point: Point): boolean {
  return point.x >= x && point.x <= x + width && point.y >= y && point.y <= y + height;
}

export function centerOf({ x, y, width, height }: Box): Point {
  return { x: x + width / 2, y: y + height / 2 };
}

/** Rounds to hundredths: precise enough for a picture, and readable in lists of elements. */
function rounded(curve: readonly number[]): Curve {
  return curve.map((value) => Math.round(value * 100) / 100);
}
