import { outline as module } from "../../gen/wasm/outline.ts";

/** What a JSON document shows without being parsed; a malformed one shows anything. */
export type StructuralScan = {
  /** Outside of strings: as many as all its objects have members. */
  readonly colons: number;
  /** How many arrays and objects stand in each other, at most. */
  readonly depth: number;
  /** Some string has an escape `\u`. */
  readonly hasUnicodeEscape: boolean;
};

/** What outline.wat exports. */
type Kernel = {
  readonly memory: { readonly buffer: ArrayBuffer };
  readonly colons: { readonly value: number };
  readonly depth: { readonly value: number };
  readonly hasUnicodeEscape: { readonly value: number };
  begin(): void;
  scan(length: number): void;
};

/** TypeScript has it in the library of browsers alone. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: unknown };
};

// Of JavaScript, the same would cost half as much again as JSON.parse does.
const kernel = new WebAssembly.Instance(new WebAssembly.Module(Buffer.from(module, "base64"))).exports as Kernel;

/** As many bytes as the kernel takes at once. */
const PAGE = 64 * 1024;

const page = new Uint8Array(kernel.memory.buffer, 0, PAGE);

export function scanStructure(bytes: Uint8Array): StructuralScan {
  kernel.begin();
  for (let at = 0; at < bytes.length; at += PAGE) {
    const part = bytes.length <= PAGE ? bytes : bytes.subarray(at, at + PAGE);
    page.set(part);
    kernel.scan(part.length);
  }
  return {
    colons: kernel.colons.value,
    depth: kernel.depth.value,
    hasUnicodeEscape: kernel.hasUnicodeEscape.value === 1,
  };
}
