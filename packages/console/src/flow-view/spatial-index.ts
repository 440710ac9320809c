import { intersects, type Box } from "./geometry.ts";

/** Most nodes are in one or two cells. */
const cellSize = 512;

/** Items that cover more cells are compared on every query. */
const maxCells = 64;

export class SpatialIndex<T extends { readonly box: Box }> {
  readonly #items: readonly T[];
  readonly #cells = new Map<string, number[]>();
  readonly #large: number[] = [];
  /** The number of the last query that has found the item. */
  readonly #found: Uint32Array;
  #query = 0;

  constructor(items: readonly T[]) {
    this.#items = items;
    this.#found = new Uint32Array(items.length);
    for (const [position, { box }] of items.entries()) {
      const { left, top, right, bottom } = cellsOf(box);
      if ((right - left + 1) * (bottom - top + 1) > maxCells) {
        this.#large.push(position);
        continue;
      }
      for (let column = left; column <= right; column += 1) {
        for (let row = top; row <= bottom; row += 1) {
          const cell = this.#cells.get(`${column}:${row}`);
          if (cell === undefined) {
            this.#cells.set(`${column}:${row}`, [position]);
          } else {
            cell.push(position);
          }
        }
      }
    }
  }

  find(area: Box): readonly T[] {
    const { left, top, right, bottom } = cellsOf(area);
    if ((right - left + 1) * (bottom - top + 1) >= this.#cells.size) {
      return this.#items.filter(({ box }) => intersects(box, area));
    }
    this.#query += 1;
    const positions: number[] = [];
    const collect = (candidates: readonly number[]): void => {
      for (const position of candidates) {
        const item = this.#items[position];
        if (item !== undefined && this.#found[position] !== this.#query && intersects(item.box, area)) {
          this.#found[position] = this.#query;
          positions.push(position);
        }
      }
    };
    collect(this.#large);
    for (let column = left; column <= right; column += 1) {
      for (let row = top; row <= bottom; row += 1) {
        collect(this.#cells.get(`${column}:${row}`) ?? []);
      }
    }
    return positions.toSorted((one, other) => one - other).flatMap((position) => this.#items[position] ?? []);
  }
}

function cellsOf({ x, y, width, height }: Box): { left: number; top: number; right: number; bottom: number } {
  return {
    left: Math.floor(x / cellSize),
    top: Math.floor(y / cellSize),
    right: Math.floor((x + width) / cellSize),
    bottom: Math.floor((y + height) / cellSize),
  };
}
