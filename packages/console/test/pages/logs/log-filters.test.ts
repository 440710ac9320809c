import { EventKind, LogLevel } from "@flowgate/client";
import { expect, test } from "vitest";
import { formatKinds, parseKinds, permittedKinds, toQuery } from "../../../src/pages/logs/log-filters.ts";

const all = permittedKinds(() => true);
const names = (filter: string, permitted = all): string[] => parseKinds(filter, permitted).map(({ name }) => name);

test("without a filter, kinds are selected that matter to operators, as far as they are permitted", () => {
  const byDefault = ["log", "node_error", "debug", "deployment", "runtime_state", "health", "module", "proposal"];
  expect(names("")).toEqual(byDefault);
  expect(names("nothing,known")).toEqual(byDefault);
  expect(
    names(
      "debug,node_error",
      permittedKinds((permission) => permission === "logs.read"),
    ),
  ).toEqual(["node_error"]);
});

test("a filter is what it was parsed from", () => {
  for (const filter of ["", "log", "debug,token", "users"]) {
    expect(formatKinds(parseKinds(filter, all), all)).toBe(filter);
  }
});

test("the level is that of its name, or none", () => {
  const filters = { tab: "t", node: "n", since: "", until: "" };
  expect(toQuery({ ...filters, level: "warn" }, parseKinds("log", all))).toEqual({
    kinds: [EventKind.LOG],
    level: LogLevel.WARN,
    tab: "t",
    node: "n",
  });
  expect(toQuery({ ...filters, level: "toString" }, []).level).toBe(LogLevel.UNSPECIFIED);
  expect(toQuery({ ...filters, level: "" }, []).level).toBe(LogLevel.UNSPECIFIED);
});

test("times are those of the address, or none", () => {
  const filters = { level: "", tab: "", node: "" };
  const since = "2026-11-26T23:50:00.000Z";
  expect(toQuery({ ...filters, since, until: "yesterday" }, [])).toMatchObject({ sinceMs: Date.parse(since) });
  expect(toQuery({ ...filters, since: "", until: since }, []).untilMs).toBe(Date.parse(since));
  expect(toQuery({ ...filters, since: "", until: "yesterday" }, [])).not.toHaveProperty("untilMs");
});
