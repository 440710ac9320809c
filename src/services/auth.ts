import { create } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import { type AuthService, GetLoginResponseSchema } from "../../gen/flowgate/v1/auth_pb.ts";
import type { Authenticator } from "../auth/authenticator.ts";
import { originOf, peerKey, principalKey } from "../auth/caller.ts";

/** The authenticator of the API's logins, or of another listener's. */
export type LoginAuthenticator = Pick<Authenticator, "login" | "issueToken" | "revokeToken" | "onReplaced">;

export function authService(authenticator: LoginAuthenticator): ServiceImpl<typeof AuthService> {
  // Frozen, so that its encoding can be cached.
  const createLogin = () => Object.freeze(create(GetLoginResponseSchema, authenticator.login()));
  let loginResponse = createLogin();
  authenticator.onReplaced(() => {
    loginResponse = createLogin();
  });
  return {
    getLogin: () => loginResponse,
    getIdentity(_request, { values }) {
      const { username, permissions, token } = values.get(principalKey);
      return {
        username: username ?? "",
        permissions: [...permissions],
        tokenId: token?.id ?? "",
        tokenName: token?.name ?? "",
      };
    },
    async issueToken(request, context) {
      const peer = context.values.get(peerKey);
      const { authorization = context.requestHeader.get("authorization") } = peer;
      return authenticator.issueToken(request, { origin: originOf(context), authorization, kind: peer.clientKind });
    },
    async revokeToken({ token }, context) {
      await authenticator.revokeToken(token, originOf(context));
      return {};
    },
  };
}
