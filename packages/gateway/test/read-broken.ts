/** The body of a stream before it was aborted. */
export async function readBroken(pieces: AsyncIterable<string>): Promise<string> {
  let text = "";
  try {
    for await (const piece of pieces) {
      text += piece;
    }
  } catch {
    return text;
  }
  throw new Error("the stream ended well");
}
