import { expect, test } from "vitest";
import { findFile } from "../src/form-file.ts";

const type = "multipart/form-data; boundary=b-1";
const file = 'content-disposition: form-data; name="tarball"; filename="a.tgz"\r\ncontent-type: application/gzip';
const part = (headers: string, content: string): string => `--b-1\r\n${headers}\r\n\r\n${content}\r\n`;
const field = part('content-disposition: form-data; name="other"', "--b-1 is text");

test.each([
  ["a file", `${part(file, "content")}--b-1--\r\n`, "content"],
  ["an empty file", `${part(file, "")}--b-1--`, ""],
  [
    "a file after a field and a preamble",
    `preamble\r\n${field}${part(file, "a\r\n--b-0\r\n\r\nb")}--b-1--`,
    "a\r\n--b-0\r\n\r\nb",
  ],
  ["a name without quotes", `${part("Content-Disposition: form-data;filename=x; name=tarball", "1")}--b-1--`, "1"],
  ["a field that is not a file", `${part('content-disposition: form-data; name="tarball"', "x")}--b-1--`, undefined],
  ["a file of another field", `${part(file.replace("tarball", "other"), "x")}--b-1--`, undefined],
  ["a file without an end", part(file, "content"), undefined],
  ["too many parts", `${field.repeat(20)}${part(file, "x")}--b-1--`, undefined],
  ["too long a header", `${part(`x: ${"x".repeat(10_000)}\r\n${file}`, "x")}--b-1--`, undefined],
  ["no form", "", undefined],
])("finds the file in a form with %s", (_, form, content) => {
  expect(findFile(Buffer.from(form), type, "tarball")?.toString()).toBe(content);
});

test.each([
  ['multipart/form-data; boundary="b-1"', true],
  ["Multipart/Form-Data; charset=utf-8; Boundary=b-1", true],
  ["multipart/form-data", false],
  ["multipart/form-data; boundary=b-2", false],
  ["multipart/mixed; boundary=b-1", false],
])("reads the boundary of %s", (contentType, isFound) => {
  expect(findFile(Buffer.from(`${part(file, "x")}--b-1--`), contentType, "tarball") !== undefined).toBe(isFound);
});

test("finds what clients of fetch send, whatever it contains", async () => {
  const form = new FormData();
  form.append("other", "x");
  const content = Buffer.from(Array.from({ length: 100_000 }, (_, at) => at % 251));
  form.append("tarball", new Blob([content]), "a.tgz");
  const request = new Request("http://localhost", { method: "POST", body: form });
  const found = findFile(
    Buffer.from(await request.arrayBuffer()),
    request.headers.get("content-type") ?? "",
    "tarball",
  );
  expect(found?.equals(content)).toBe(true);
});
