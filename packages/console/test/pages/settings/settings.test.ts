import type { DescEnum, DescMessage } from "@bufbuild/protobuf";
import {
  IsolationLevelSchema,
  ReplicaSchema,
  RuntimeModeSchema,
  RuntimeSchema,
  RuntimeStateSchema,
} from "@flowgate/client";
import { describe, expect, test } from "vitest";
import { grantOf, nameOfValue } from "../../../src/pages/settings/values.ts";
import {
  isolationMeanings,
  modeTexts,
  replicaFields,
  runtimeFields,
  stateMeanings,
} from "../../../src/texts/settings.ts";

describe("what the page explains is what the contract has", () => {
  test.each<[DescMessage, Readonly<Record<string, unknown>>]>([
    [RuntimeSchema, runtimeFields],
    [ReplicaSchema, replicaFields],
  ])("of the fields of %s", (schema, fields) => {
    expect(Object.keys(fields)).toEqual(schema.fields.map(({ localName }) => localName));
  });

  test.each<[DescEnum, Readonly<Record<string, string>>]>([
    [RuntimeStateSchema, stateMeanings],
    [IsolationLevelSchema, isolationMeanings],
    [RuntimeModeSchema, modeTexts],
  ])("of the values of %s", (schema, meanings) => {
    expect(Object.keys(meanings)).toEqual(schema.values.slice(1).map(({ number }) => nameOfValue(schema, number)));
  });
});

test("the value of a newer service has no name", () => {
  expect(nameOfValue(RuntimeStateSchema, 99)).toBe("");
  expect(nameOfValue(RuntimeStateSchema, 0)).toBe("");
});

test.each([
  ["flows.write", ["flows.write"], true, "all"],
  ["flows.write", ["*"], true, "all"],
  ["flows.write", ["flows.write@tab:A"], true, "some tabs"],
  ["flows.write", ["flows.write@tab:A", "flows.write"], true, "all"],
  ["flows.write", ["*", "flows.write@tab:A"], true, "all"],
  ["flows.read", ["read"], true, "all"],
  ["flows.write", ["flows.propose@tab:A"], false, "none"],
] as const)("%s of %j", (permission, granted, canSome, expected) => {
  expect(grantOf(permission, granted, canSome)).toBe(expected);
});
