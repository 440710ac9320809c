import { X509Certificate } from "node:crypto";
import { describe, expect, test } from "vitest";
import { createIdentities } from "../../src/auth/accounts.ts";
import { isSpiffeId, isSpiffePattern, workloadOfCertificate, workloadOfForwarded } from "../../src/auth/workload.ts";
import { createAuthority } from "../certificates.ts";

const authority = createAuthority();
const alice = "spiffe://example.org/ns/prod/sa/alice";
const bob = "spiffe://example.org/ns/prod/sa/bob";

test.each([
  [alice, true],
  ["spiffe://a/b", true],
  ["spiffe://my-domain_1.example/A.b-c_9/...", true],
  [`spiffe://${"d".repeat(255)}/p`, true],
  [`spiffe://${"d".repeat(256)}/p`, false],
  [`spiffe://d/${"p".repeat(2037)}`, true],
  [`spiffe://d/${"p".repeat(2038)}`, false],
  ["", false],
  ["spiffe://", false],
  ["spiffe:///path", false],
  ["spiffe://example.org", false],
  ["spiffe://example.org/", false],
  ["spiffe://example.org/a/", false],
  ["spiffe://example.org//a", false],
  ["spiffe://example.org/./a", false],
  ["spiffe://example.org/a/..", false],
  ["spiffe://Example.org/a", false],
  ["SPIFFE://example.org/a", false],
  ["https://example.org/a", false],
  ["spiffe://example.org:443/a", false],
  ["spiffe://user@example.org/a", false],
  ["spiffe://example.org/a?b", false],
  ["spiffe://example.org/a#b", false],
  ["spiffe://example.org/%61", false],
  ["spiffe://example.org/*", false],
  ["spiffe://example.org/é", false],
  [" spiffe://example.org/a", false],
  ["spiffe://example.org/a\n", false],
])("whether %j is the SPIFFE ID of a workload: %j", (text, expected) => {
  expect(isSpiffeId(text)).toBe(expected);
});

test.each([
  [alice, true],
  ["spiffe://example.org/*", true],
  ["spiffe://example.org/ns/prod/*", true],
  ["spiffe://*", false],
  ["spiffe://*/a", false],
  ["spiffe://example.org*", false],
  ["spiffe://example.org/a*", false],
  ["spiffe://example.org/*/a", false],
  ["spiffe://example.org/**", false],
  ["*", false],
])("whether %j is valid in a rule: %j", (text, expected) => {
  expect(isSpiffePattern(text)).toBe(expected);
});

test("the most specific rule applies, in any order, and only to its path", () => {
  const rules = [
    { id: "spiffe://example.org/*", permissions: ["read"] },
    { id: "spiffe://example.org/ns/prod/*", permissions: ["flows.read"] },
    { id: alice, permissions: ["*"] },
  ];
  for (const ordered of [rules, rules.toReversed()]) {
    const permissions = (id: string) => createIdentities(ordered)(id)?.permissions;
    expect(permissions(alice)).toEqual(["*"]);
    expect(permissions(bob)).toEqual(["flows.read"]);
    expect(permissions("spiffe://example.org/ns/production/sa/bob")).toEqual(["read"]);
    expect(permissions("spiffe://example.org/ns/prod")).toEqual(["read"]);
    expect(permissions("spiffe://example.org.evil.example/ns/prod/sa/alice")).toBeUndefined();
    expect(permissions("spiffe://example.or/ns/prod/sa/alice")).toBeUndefined();
  }
  expect(createIdentities(rules)(bob)?.username).toBe(bob);
});

/** The ID, or the message of the error. */
function tried(read: () => string | undefined): string | undefined {
  try {
    return read();
  } catch (error) {
    return `rejected:  ${(error as Error).message}`;
  }
}

const unclear = (source: string) => `${source} must contain exactly one URI, which is a SPIFFE ID with a path.`;

describe("of a certificate", () => {
  const rejected = `rejected:  ${unclear("The client certificate")}`;
  test.each([
    ["one SPIFFE ID", { uris: [alice], dnsNames: ["a.example"], addresses: ["10.0.0.1"] }, alice],
    ["no URI", { dnsNames: ["a.example"] }, undefined],
    ["no name at all", {}, undefined],
    ["two SPIFFE IDs", { uris: [alice, bob] }, rejected],
    ["another URI too", { uris: [alice, "https://example.org/"] }, rejected],
    ["another URI alone", { uris: ["https://example.org/"] }, rejected],
    ["an ID without a path", { uris: ["spiffe://example.org"] }, rejected],
    ["an ID inside of another URI", { uris: [`https://a, URI:${alice}`] }, rejected],
    ["an ID inside of a DNS name", { dnsNames: [`a.example, URI:${alice}`] }, undefined],
    ["an ID inside of a quoted DNS name", { dnsNames: [`a", URI:${alice}, DNS:"`] }, undefined],
    [
      "that of an authority",
      { uris: [alice], ca: true },
      "rejected:  The client certificate is a CA certificate, which does not identify a workload.",
    ],
  ])("with %s", (_name, certificate, expected) => {
    expect(tried(() => workloadOfCertificate(new X509Certificate(authority.issue(certificate).cert)))).toBe(expected);
  });
});

describe("of X-Forwarded-Client-Cert", () => {
  const rejected = `rejected:  ${unclear("The header X-Forwarded-Client-Cert")}`;
  const hash = `Hash=${"ab".repeat(32)}`;
  test.each([
    [`URI=${alice}`, alice],
    [`uri=${alice}`, alice],
    [`By=spiffe://example.org/gateway;${hash};Subject="";URI=${alice}`, alice],
    [`${hash};Cert="-----BEGIN%20CERTIFICATE%3B";Subject="CN=a,O=\\"b;c\\"";URI=${alice};DNS=a.example;DNS=b`, alice],
    [`URI="${alice}"`, alice],
    // Only the nearest proxy's element is used.
    [`${hash};URI=${bob},${hash};URI=${alice}`, alice],
    [`URI=${bob}, URI=${alice}`, alice],
    [`URI=${bob};URI=${bob},URI=${alice}`, alice],
    [`URI=${bob},${hash};Subject="CN=no workload"`, undefined],
    [`Subject="x;URI=${bob},URI=${bob}";URI=${alice}`, alice],
    [`Subject="ends in \\\\";URI=${alice}`, alice],
    [`${hash};Subject="CN=a"`, undefined],
    [`URI=${alice};URI=${bob}`, rejected],
    [`URI=${alice};URI=${alice}`, rejected],
    ["URI=https://example.org/", rejected],
    // As written by Envoy for a certificate without a URI.
    ["URI=", undefined],
    [`${hash};URI=;DNS=a.example`, undefined],
    [`URI=${bob},URI=`, undefined],
    [`URI=${alice},`, rejected],
    [`URI=${alice};`, rejected],
    [`,URI=${alice}`, rejected],
    ["", rejected],
    ["URI", rejected],
    [`URI=${alice}=b`, rejected],
    [`URI=${alice} b`, rejected],
    [`URI="${alice}`, rejected],
    [`URI="${alice}"x`, rejected],
    [`URI=${alice}"`, rejected],
    // A quote that a client leaves open would swallow the proxy's element, so both are rejected.
    [`a=",By=spiffe://example.org/gateway;${hash};Subject="CN=x";URI=${alice}`, rejected],
    [`a="\\,By=spiffe://example.org/gateway;${hash};Subject="";URI=${alice}`, rejected],
  ])("%s", (header, expected) => {
    expect(tried(() => workloadOfForwarded(header))).toBe(expected);
  });
});
