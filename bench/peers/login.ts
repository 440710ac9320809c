import type { MessageInitShape } from "@bufbuild/protobuf";
import type { GetLoginResponseSchema } from "../../gen/flowgate/v1/auth_pb.ts";

/** What the service under test answers to GetLogin where passwords are configured. */
export const login = {
  type: "credentials",
  prompts: [
    { id: "username", type: "text", label: "Username" },
    { id: "password", type: "password", label: "Password" },
  ],
} satisfies MessageInitShape<typeof GetLoginResponseSchema>;
