import type { MessageInitShape } from "@bufbuild/protobuf";
import type { GetLoginResponseSchema } from "../../gen/flowgate/v1/auth_pb.ts";

/** The response of the service to GetLogin if passwords are configured. */
export const login = {
  type: "credentials",
  prompts: [
    { id: "username", type: "text", label: "Username" },
    { id: "password", type: "password", label: "Password" },
  ],
} satisfies MessageInitShape<typeof GetLoginResponseSchema>;
