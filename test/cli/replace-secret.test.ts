import { expect, test } from "vitest";
import { replaceSecret } from "../../src/cli/write-secret.ts";

const cases: [string, string, string | undefined, string | undefined][] = [
  [
    "a block, whose comments and order stay",
    "# the service\nport: 1 # of the proxy\ncredentialSecret: 'old' # 2025\nhost: a\n",
    "old",
    '# the service\npreviousCredentialSecrets: ["old"]\nport: 1 # of the proxy\ncredentialSecret: "new" # 2025\nhost: a\n',
  ],
  [
    "secrets from before",
    "credentialSecret: old\npreviousCredentialSecrets:\n  - older\nport: 1\n",
    "old",
    'credentialSecret: "new"\npreviousCredentialSecrets:\n  ["old", "older"]\nport: 1\n',
  ],
  ["no secret before", "port: 1\n", undefined, 'credentialSecret: "new"\nport: 1\n'],
  ["an empty file", "", undefined, 'credentialSecret: "new"\n'],
  [
    "JSON",
    '{"port": 1, "credentialSecret": "old"}',
    "old",
    '{"previousCredentialSecrets": ["old"], "port": 1, "credentialSecret": "new"}',
  ],
  [
    "a text of several lines",
    "credentialSecret: |-\n  old\nport: 1\n",
    "old",
    'previousCredentialSecrets: ["old"]\ncredentialSecret: "new"\nport: 1\n',
  ],
  ["a secret that is used elsewhere too", "credentialSecret: &x old\nroles: { a: [*x] }\n", "old", undefined],
];

test.each(cases)("%s", (_, text, previous, expected) => {
  expect(replaceSecret(text, "new", previous)).toBe(expected);
});
