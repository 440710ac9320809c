import { expect, test } from "vitest";
import { createSecrets } from "../e2e/secret-canaries.ts";

test("secrets are found as text, base64 and hexadecimal, at any offset", () => {
  const secrets = createSecrets();
  const value = secrets.secret("credentialSecret");
  for (const content of [
    value,
    `x${value}y`,
    btoa(value),
    btoa(`x${value}`),
    btoa(`xy${value}z`),
    Buffer.from(value).toString("hex"),
  ]) {
    expect(secrets.find(content)).toEqual(["credentialSecret"]);
  }
  expect(secrets.find("nothing")).toEqual([]);
});
