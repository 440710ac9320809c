import { create } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import { GetLoginResponseSchema, type AuthService } from "../../gen/flowgate/v1/auth_pb.ts";
import type { Authenticator } from "../auth/authenticator.ts";
import { peerKey } from "../auth/principal.ts";

export function authService(authenticator: Authenticator): ServiceImpl<typeof AuthService> {
  // Frozen, so that its encoding can be cached.
  const loginResponse = Object.freeze(create(GetLoginResponseSchema, authenticator.login()));
  return {
    getLogin: () => loginResponse,
    issueToken(request, { values, requestHeader }) {
      const { address, authorization = requestHeader.get("authorization") } = values.get(peerKey);
      return authenticator.issueToken(request, { address, authorization });
    },
    async revokeToken({ token }) {
      await authenticator.revokeToken(token);
      return {};
    },
  };
}
