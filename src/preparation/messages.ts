import type { CredentialSets, DeploymentType } from "../flows/configuration.ts";
import type { SubmittedCredentials } from "../flows/credentials.ts";
import type { EncodedRequest } from "@flowgate/transcoding";
import type { SentError } from "./sent-error.ts";

/** What the thread is started with. */
export type PreparationData = { readonly credentialSecret: string | undefined };

export type PreparationCall = { readonly source: EncodedRequest; readonly current: CredentialSets };

/** PreparedDeployment as it is sent. */
export type PreparationReply =
  | {
      readonly kind: "prepared";
      readonly type: DeploymentType;
      readonly rev: string | undefined;
      readonly outcome: SentFlows | { readonly kind: "refused"; readonly error: SentError } | undefined;
    }
  /** There is no deployment: the request can't be decoded, or its type is unknown. */
  | { readonly kind: "failed"; readonly error: SentError };

type SentFlows = {
  readonly kind: "flows";
  readonly json: Uint8Array<ArrayBuffer>;
  readonly count: number;
  /** undefined: the current ones. */
  readonly credentials: CredentialSets | undefined;
  readonly given: SubmittedCredentials;
};
