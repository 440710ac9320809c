import { expect, test } from "vitest";
import { parseSecret, signedHeaders } from "../../../src/events/webhooks/signature.ts";

test("a request has the signature of the example of Standard Webhooks", () => {
  const key = parseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
  const id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
  expect(signedHeaders(id, '{"test": 2432232314}', key, 1_614_265_330_000)).toEqual({
    "webhook-id": id,
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  });
});

test("without a secret there is no signature", () => {
  expect(signedHeaders("id", "{}", undefined, 1_999)).toEqual({ "webhook-id": "id", "webhook-timestamp": "1" });
});

test.each(["", "whsec_", "whsec_c2hvcnQ=", "whsec_not base64 at all!", `whsec_${"A".repeat(100)}`])(
  "%j is no secret",
  (secret) => {
    expect(parseSecret(secret)).toBeUndefined();
  },
);
