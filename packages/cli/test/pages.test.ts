import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { AuditService, RevisionsService, TokensService } from "@flowgate/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { runCommand } from "../../../test/cli/run-command.ts";

/** How many items there are, and in a page at most, whatever its size should be. */
const [total, perPage] = [7, 3];

type Request = { readonly pageSize: number; readonly pageToken: string };

/** The numbers of the items of a page, beginning at 1. */
function readPage({ pageSize, pageToken }: Request): { numbers: number[]; nextPageToken: string } {
  const start = Number(pageToken);
  const end = Math.min(start + Math.min(pageSize, perPage), total);
  const numbers = Array.from({ length: end - start }, (_, index) => start + index + 1);
  return { numbers, nextPageToken: end === total ? "" : String(end) };
}

const server = createServer(
  connectNodeAdapter({
    routes(router) {
      router.rpc(RevisionsService.method.listRevisions, (request) => {
        const { numbers, nextPageToken } = readPage(request);
        return { revisions: numbers.map((number) => ({ rev: `rev-${number}` })), nextPageToken };
      });
      router.rpc(AuditService.method.listAuditEntries, (request) => {
        const { numbers, nextPageToken } = readPage(request);
        return { entries: numbers.map((number) => ({ seq: number })), nextPageToken };
      });
      router.rpc(TokensService.method.listTokens, (request) => {
        const { numbers, nextPageToken } = readPage(request);
        return { tokens: numbers.map((number) => ({ id: `token-${number}` })), nextPageToken };
      });
    },
  }),
);
beforeAll(async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});
afterAll(() => void server.close());

test.each([
  [["history"], "rev-"],
  [["audit", "list"], ""],
  [["token", "list"], "token-"],
])("%j follows the pages of the list", async (command, prefix) => {
  const { port } = server.address() as AddressInfo;
  const list = async (limit: number) => {
    const { code, stdout, stderr } = await runCommand([...command, "--limit", String(limit)], {
      env: { FLOWGATE_SERVER: `http://127.0.0.1:${port}` },
    });
    const rows = stdout.trimEnd().split("\n").slice(1);
    return { code, items: rows.map((row) => row.trim().split(" ")[0]), stderr };
  };
  const items = Array.from({ length: total }, (_, index) => `${prefix}${index + 1}`);
  expect(await list(total + 1)).toEqual({ code: 0, items, stderr: "" });
  expect(await list(5)).toEqual({
    code: 0,
    items: items.slice(0, 5),
    stderr: "flowgate: only the first 5 are shown: use a larger --limit.\n",
  });
});
