import { fromJson, type JsonObject, type JsonValue, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { ContextService } from "../../gen/flowgate/v1/context_pb.ts";
import type { AuditRecorder } from "../auth/audit-recorder.ts";
import { originOf } from "../auth/caller.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import { quoteInput } from "@flowgate/flows";
import {
  type Procedure,
  type ContextScope,
  deleteContext,
  getContext,
  listContext,
  type NoContext,
  setContext,
} from "@flowgate/runtime";
import { callRunner, type Runner } from "./runner.ts";

type ContextOptions = Runner & { readonly audit: Pick<AuditRecorder, "record"> };

export function contextService(options: ContextOptions): ServiceImpl<typeof ContextService> {
  return {
    async listContext({ store }, context) {
      const { stores, scopes, isTruncated } = await call(listContext, { store: orNone(store) }, { store }, context);
      return {
        stores: [...stores],
        scopes: scopes.map((each) => ({
          scope: formatScope(each.scope),
          store: each.store,
          keys: [...each.keys],
          truncated: each.isTruncated,
        })),
        truncated: isTruncated,
      };
    },

    async getContext({ scope, store }, context) {
      const place = parsePlace(scope);
      const found = await call(getContext, { ...place, store: orNone(store) }, { scope, store }, context);
      const { isTruncated: truncated } = found;
      return "values" in found
        ? { values: found.values as JsonObject, truncated }
        : { value: fromJson(ValueSchema, found.value as JsonValue), format: found.format, truncated };
    },

    async setContext({ scope, content, store }, context) {
      const place = withKey(scope);
      if (content?.value === undefined) {
        throw new FlowgateError("invalid_argument", "value: is required");
      }
      const value = toJson(ValueSchema, content.value);
      await call(setContext, { ...place, value, store: orNone(store) }, { scope, store }, context);
      record("context_set", scope, store, context);
      return {};
    },

    async deleteContext({ scope, store }, context) {
      await call(deleteContext, { ...withKey(scope), store: orNone(store) }, { scope, store }, context);
      record("context_deleted", scope, store, context);
      return {};
    },
  };

  async function call<Argument, Result>(
    procedure: Procedure<Argument, Result>,
    argument: Argument,
    request: { readonly scope?: string; readonly store: string },
    context: HandlerContext,
  ): Promise<Exclude<Result, NoContext>> {
    const { result } = await callRunner(options, procedure, argument, context);
    if (isNone(result)) {
      throw toError(result, request);
    }
    return result as Exclude<Result, NoContext>;
  }

  /** The key, and not the value, which may be secret. */
  function record(
    kind: "context_set" | "context_deleted",
    scope: string,
    store: string,
    context: Pick<HandlerContext, "values" | "protocolName">,
  ): void {
    options.audit.record({ kind, origin: originOf(context), subject: scope.slice(0, 300), detail: orNone(store) });
  }
}

function isNone(result: unknown): result is NoContext {
  return typeof result === "object" && result !== null && ("missing" in result || "refused" in result);
}

function toError(
  none: NoContext,
  { scope = "", store }: { readonly scope?: string; readonly store: string },
): FlowgateError {
  if ("refused" in none) {
    return new FlowgateError("invalid_argument", `scope: ${none.refused}`);
  }
  switch (none.missing) {
    case "store":
      return new FlowgateError(
        "not_found",
        `store: there is no store ${quoteInput(store)}; there are ${none.stores.join(", ")}`,
      );
    case "scope":
      return new FlowgateError("not_found", `scope: ${quoteInput(scope)} is no running flow or node`);
    case "key":
      return new FlowgateError("not_found", `scope: ${quoteInput(scope)} has no value`);
  }
}

function orNone(text: string): string | undefined {
  return text === "" ? undefined : text;
}

type Place = { readonly scope: ContextScope; readonly key: string | undefined };

/**
 * Parses `global`, `flow/ID` or `node/ID`, each with `/KEY` or without. The key may have slashes; slashes of an id or
 * key may be written as %2F, which the routes of REST do not decode.
 */
function parsePlace(text: string): Place {
  const [kind = "", ...rest] = text.split("/");
  const invalid = new FlowgateError(
    "invalid_argument",
    `scope: ${quoteInput(text)} must be global, flow/ID or node/ID, followed by /KEY for one value`,
  );
  const decode = (part: string): string => part.replaceAll(/%2F/gi, "/");
  const keyOf = (parts: readonly string[]): string | undefined => {
    if (parts.length > 0 && parts.join("/") === "") {
      throw invalid;
    }
    return parts.length === 0 ? undefined : decode(parts.join("/"));
  };
  if (kind === "global") {
    return { scope: { kind }, key: keyOf(rest) };
  }
  const [id = "", ...key] = rest;
  if ((kind !== "flow" && kind !== "node") || id === "") {
    throw invalid;
  }
  return { scope: { kind, id: decode(id) }, key: keyOf(key) };
}

function withKey(text: string): Place & { readonly key: string } {
  const { scope, key } = parsePlace(text);
  if (key === undefined) {
    throw new FlowgateError("invalid_argument", `scope: ${quoteInput(text)} must be followed by /KEY`);
  }
  return { scope, key };
}

function formatScope(scope: ContextScope): string {
  return scope.kind === "global" ? scope.kind : `${scope.kind}/${scope.id.replaceAll("/", "%2F")}`;
}
