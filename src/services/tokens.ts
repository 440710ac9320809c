import { type MessageInitShape, create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import { ListTokensResponseSchema, type TokenSchema, type TokensService } from "../../gen/flowgate/v1/tokens_pb.ts";
import type { Authenticator } from "../auth/authenticator.ts";
import { authDisabled, revocation } from "../auth/tokens.ts";
import { originOf, principalKey } from "../auth/caller.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import type { ListedToken, StoredToken, TokenStore } from "../store/token-store.ts";
import { formatPageToken, parsePageToken, readPageSize } from "./lists.ts";

export function tokensService(
  authenticator: Authenticator,
  store: Pick<TokenStore, "list" | "get" | "remove">,
): ServiceImpl<typeof TokensService> {
  const toMessage = (token: StoredToken & Partial<ListedToken>): MessageInitShape<typeof TokenSchema> => ({
    id: token.id,
    name: token.name ?? "",
    user: token.username,
    scope: token.scope,
    clientId: token.clientId,
    expireTime: timestampFromMs(token.expiresAtMs),
    valid: authenticator.isValid(token),
    ...(token.createdAtMs !== undefined && { createTime: timestampFromMs(token.createdAtMs) }),
    ...(token.lastUsedAtMs !== undefined && { lastUseTime: timestampFromMs(token.lastUsedAtMs) }),
  });
  const assertEnabled = (): void => {
    if (!authenticator.storesTokens) {
      throw authDisabled();
    }
  };

  return {
    async listTokens({ pageSize, pageToken, user }) {
      assertEnabled();
      const { tokens, next } = await store.list({
        limit: readPageSize(pageSize),
        nowMs: Date.now(),
        username: user === "" ? undefined : user,
        before: parsePageToken(pageToken),
      });
      return create(ListTokensResponseSchema, { tokens: tokens.map(toMessage), nextPageToken: formatPageToken(next) });
    },

    async createToken(request, context) {
      const caller = context.values.get(principalKey);
      const { token, accessToken } = await authenticator.createToken(request, caller, originOf(context));
      return { token: toMessage(token), accessToken };
    },

    async deleteToken({ id }, context) {
      assertEnabled();
      const token = await store.get(id);
      if (token === undefined) {
        throw new FlowgateError("not_found", "there is no token with this id: list the tokens to find it");
      }
      await store.remove({ id }, revocation(token, originOf(context)));
      return {};
    },

    async revokeTokens({ target }, context) {
      assertEnabled();
      const origin = originOf(context);
      if (target.case === "user" && target.value !== "") {
        const username = target.value;
        const detail = `all tokens of ${username}`;
        return { revoked: await store.remove({ username }, { kind: "token_revoked", origin, detail }) };
      }
      if (target.case === "all" && target.value) {
        return { revoked: await store.remove("all", { kind: "token_revoked", origin, detail: "all tokens" }) };
      }
      throw new FlowgateError(
        "invalid_argument",
        "user: name the user whose tokens to revoke, or set all to true for all users",
      );
    },
  };
}
