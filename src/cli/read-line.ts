import { CliFailure } from "./failure.ts";

/** Reads a secret from the first line of a stream, without what follows. `name` is what it is, for errors. */
export async function readSecretLine(input: AsyncIterable<Buffer>, name: string): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of input) {
    chunks.push(chunk);
    if (chunk.includes("\n")) {
      break;
    }
  }
  const [line = ""] = decode(Buffer.concat(chunks), name).split(/\r?\n/);
  if (line === "") {
    throw new CliFailure(`The ${name} is empty.`);
  }
  return line;
}

function decode(bytes: Buffer, name: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    if (error instanceof TypeError) {
      throw new CliFailure(`The ${name} is not UTF-8.`, { cause: error });
    }
    throw error;
  }
}
