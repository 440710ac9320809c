import { gzipSync } from "node:zlib";

/** An entry of an archive, with what npm pack would never write. */
export type TarEntry = {
  readonly path: string;
  readonly content?: string;
  readonly type?: string;
  readonly linkName?: string;
  readonly prefix?: string;
  readonly hasWrongChecksum?: boolean;
};

/** A block of zeros, as at the end of an archive. */
export const zeroBlock = "zeros";

/** A compressed archive in the format ustar with these entries, byte for byte. */
export function formatTar(entries: readonly (TarEntry | typeof zeroBlock)[]): Buffer {
  const blocks = entries.map((entry) => (entry === zeroBlock ? Buffer.alloc(512) : formatEntry(entry)));
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(1_024)]));
}

function formatEntry({
  path,
  content = "",
  type = "0",
  linkName = "",
  prefix = "",
  hasWrongChecksum,
}: TarEntry): Buffer {
  const body = Buffer.from(content);
  const header = Buffer.alloc(512);
  header.write(path, 0, 100);
  header.write("0000644\x000000000\x000000000\x00", 100);
  header.write(`${body.length.toString(8).padStart(11, "0")} `, 124);
  header.write("00000000000 ", 136);
  header.write("        ", 148);
  header.write(type, 156);
  header.write(linkName, 157, 100);
  header.write("ustar\u000000", 257);
  header.write(prefix, 345, 130);
  const sum = header.reduce((total, byte) => total + byte, hasWrongChecksum === true ? 1 : 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return Buffer.concat([header, body, Buffer.alloc((512 - (body.length % 512)) % 512)]);
}

/** An extended header of the format pax, for the entry after it. */
export function paxHeader(records: Readonly<Record<string, string>>, type = "x"): TarEntry {
  const content = Object.entries(records).map(([key, value]) => {
    const rest = ` ${key}=${value}\n`;
    const length = Buffer.byteLength(rest);
    const digits = String(length + String(length + 2).length).length;
    return `${length + digits}${rest}`;
  });
  return { path: "PaxHeader/entry", type, content: content.join("") };
}

/** The name of the entry after it, as GNU tar writes it if it is long. */
export function longName(path: string): TarEntry {
  return { path: "././@LongLink", type: "L", content: `${path}\0` };
}
