import type { ConnectRouter } from "@connectrpc/connect";
import { ThingsService } from "../../packages/gateway/test/gen/gatewaytest/v1/things_pb.ts";

/** Two small operations. */
export function routes(router: ConnectRouter): void {
  router.service(ThingsService, {
    sendForm: ({ userName, age, admin }) => ({ userName, age, admin }),
    echoThing: ({ thing }) => ({ thing }),
  });
}

const service = ThingsService.typeName;

/** The rules that serve them, and no other operation. */
export const rules = [
  { selector: `${service}.OpenThing` },
  { selector: `${service}.GetHeaders` },
  { selector: `${service}.SendForm`, pattern: { case: "get", value: "/users/{user_name}" } },
] as const;

export type Thing = { text: string; flag: boolean; small: number; texts: string[] };
