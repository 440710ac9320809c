import { create } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import { GetLoginResponseSchema, type AuthService } from "../../gen/flowgate/v1/auth_pb.ts";
import type { Authenticator } from "../auth/authenticator.ts";
import { peerKey } from "../auth/principal.ts";

export function authService(authenticator: Authenticator): ServiceImpl<typeof AuthService> {
  // Frozen, so that its encoding is kept.
  const login = Object.freeze(create(GetLoginResponseSchema, authenticator.login()));
  return {
    getLogin: () => login,
    issueToken: (request, { values }) => authenticator.issueToken(request, values.get(peerKey).address),
    async revokeToken({ token }) {
      await authenticator.revokeToken(token);
      return {};
    },
  };
}
