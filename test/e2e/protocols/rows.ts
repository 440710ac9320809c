import { type DescMessage, type DescMethodUnary, type MessageInitShape, toJson } from "@bufbuild/protobuf";
import { Code, type Transport } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { AuthService } from "../../../gen/flowgate/v1/auth_pb.ts";
import { LibraryService } from "../../../gen/flowgate/v1/library_pb.ts";
import { RuntimeService } from "../../../gen/flowgate/v1/runtime_pb.ts";
import { SettingsService } from "../../../gen/flowgate/v1/settings_pb.ts";
import { bearer } from "../rest.ts";
import { call, type Outcome, type RpcProtocol, rpcProtocolNames, rpcProtocols } from "../rpc.ts";
import type { Service } from "../service.ts";

/** A running service, with tokens by the names that rows have for them. */
export type Served = { readonly service: Service; readonly tokens: Readonly<Record<string, string>> };

export type Rest = readonly [method: string, path: string, headers?: Record<string, string>, body?: string | Buffer];
type Rpc = (transport: Transport, headers: Record<string, string>) => Promise<Outcome<DescMessage>>;

export type Rejection = {
  readonly status: number;
  readonly code: Code;
  readonly reason: string;
  /** The code over RPC, if it differs. */
  readonly rpcReason?: unknown;
  readonly message?: string | RegExp;
  /** Over REST, the response then has no body. */
  readonly challenge?: string;
  /** Over REST, the body is that of RFC 6749. */
  readonly isOAuth?: boolean;
  readonly headers?: Record<string, unknown>;
};

/** A call that is made over REST and over every RPC protocol, with one expectation. */
export type Row = {
  readonly name: string;
  /** The name of a token, or headers. Defaults to no authentication. */
  readonly as?: string | Readonly<Record<string, string>>;
  /** Several if REST has several forms. */
  readonly rest: readonly Rest[];
  /** Absent if RPC has no equivalent. */
  readonly rpc?: Rpc;
} & ({ readonly response: unknown; readonly headers?: Record<string, unknown> } | { readonly rejection: Rejection });

export function rpc<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  input: MessageInitShape<I>,
): Rpc {
  return async (transport, headers) => await call(transport, method, input, headers);
}

/** Registers a test for each row and protocol: REST, and those of RPC that are given. */
export function testRows(
  tables: Readonly<Record<string, readonly Row[]>>,
  served: () => Served,
  protocols: readonly RpcProtocol[] = rpcProtocolNames,
): void {
  const restRows = Object.entries(tables).flatMap(([table, rows]) =>
    rows.map((row) => ({ row, name: `${table}: ${row.name}` })),
  );

  test.for(restRows)("over REST: $name", async ({ row }) => {
    const { service } = served();
    for (const [method, path, headers = {}, body] of row.rest) {
      const reply = await service.send(method, path, {
        headers: { ...authorization(row, served()), ...headers },
        ...(body !== undefined && { body }),
      });
      const received = reply.body === "" ? undefined : reply.json();
      expect({ status: reply.status, type: reply.headers["content-type"], body: received }).toEqual(replyTo(row));
      expect(reply.headers).toMatchObject(headersOf(row));
    }
  });

  const rpcRows = protocols.flatMap((protocol) =>
    Object.entries(tables).flatMap(([table, rows]) =>
      rows.flatMap((row) =>
        row.rpc === undefined ? [] : [{ protocol, row, rpc: row.rpc, name: `${table}: ${row.name}` }],
      ),
    ),
  );

  test.for(rpcRows)("over $protocol: $name", async ({ protocol, row, rpc }) => {
    const transport = rpcProtocols[protocol](served().service.url);
    expect(readOutcome(await rpc(transport, authorization(row, served())), row)).toEqual(outcomeOf(row));
  });
}

function authorization({ as = {} }: Row, { tokens }: Served): Readonly<Record<string, string>> {
  if (typeof as === "object") {
    return as;
  }
  const token = tokens[as];
  if (token === undefined) {
    throw new Error(`there is no token ${as}`);
  }
  return bearer(token);
}

/** Converts an RPC response to the form of REST. */
function toRest({ message }: { message: { $typeName: string } }, method: Row): unknown {
  switch (message.$typeName) {
    case "flowgate.v1.RevokeTokenResponse":
      return undefined;
    case "flowgate.v1.GetFlowsResponse": {
      const { flows, rev } = message as unknown as { flows: { id: string }[]; rev: string };
      return { flows, rev };
    }
    default:
      return restOf(message, method);
  }
}

function restOf(message: { $typeName: string }, { name }: Row): unknown {
  const schema = schemas.get(message.$typeName);
  if (schema === undefined) {
    throw new Error(`${name} got the response ${message.$typeName}`);
  }
  const value = toJson(schema, message as never) as { runtime?: { state: string } };
  return value.runtime === undefined
    ? value
    : {
        ...value,
        runtime: { ...value.runtime, state: value.runtime.state.replace("RUNTIME_STATE_", "").toLowerCase() },
      };
}

const schemas = new Map<string, DescMessage>(
  [...AuthService.methods, ...LibraryService.methods, ...RuntimeService.methods, ...SettingsService.methods].map(
    ({ output }) => [output.typeName, output],
  ),
);

/** The expected REST response of a row, without headers. */
function replyTo(row: Row): { status: number; type: unknown; body: unknown } {
  if (!("rejection" in row)) {
    return { status: 200, type: row.response === undefined ? undefined : "application/json", body: row.response };
  }
  const { status, reason, message, challenge, isOAuth } = row.rejection;
  if (challenge !== undefined) {
    return { status, type: undefined, body: undefined };
  }
  return {
    status,
    type: "application/json",
    body:
      isOAuth === true
        ? { error: reason, error_description: matching(message ?? described) }
        : { code: reason, message: matching(message) },
  };
}

/** What RFC 6749, 5.2 permits in descriptions. */
const described = /^[\x20\x21\x23-\x5b\x5d-\x7e]+$/;

function headersOf(row: Row): Record<string, unknown> {
  if (!("rejection" in row)) {
    return row.headers ?? {};
  }
  const { headers = {}, challenge } = row.rejection;
  return challenge === undefined ? headers : { ...headers, "www-authenticate": challenge };
}

/** The expected RPC response of a row. */
function outcomeOf(row: Row): unknown {
  if (!("rejection" in row)) {
    return { response: row.response };
  }
  const { code, message } = row.rejection;
  const { "cache-control": _cacheControl, pragma: _pragma, ...metadata } = headersOf(row);
  return {
    code: Code[code],
    reason: "rpcReason" in row.rejection ? row.rejection.rpcReason : row.rejection.reason,
    message: matching(message),
    metadata: expect.objectContaining(metadata),
  };
}

function matching(message: string | RegExp | undefined): unknown {
  switch (typeof message) {
    case "string":
      return message;
    case "undefined":
      return expect.any(String);
    default:
      return expect.stringMatching(message);
  }
}

function readOutcome(outcome: Outcome<DescMessage>, row: Row): unknown {
  if (!("refused" in outcome)) {
    return { response: toRest(outcome, row) };
  }
  const { code, reason, message, metadata } = outcome.refused;
  return { code: Code[code], reason: reason ?? "none", message, metadata: Object.fromEntries(metadata) };
}
