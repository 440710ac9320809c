import { DeploymentOutcomeSchema, type SetFlowsResponse, SetFlowsResponseSchema } from "@flowgate/client";
import { enumWord } from "../output/enum-word.ts";
import type { Output } from "../output/output.ts";

/** Prints the response to a deployment: for programs with the fields that REST has in headers. */
export async function printResponse(output: Output, response: SetFlowsResponse, text: string): Promise<void> {
  output.value(output.format && (await toValue(response)), () => output.style("green", text));
}

async function toValue(response: SetFlowsResponse): Promise<unknown> {
  const { toRestJson } = await import("../output/rest-json.ts");
  const { outcome, missingTypes, undoneRev, mergedRev } = response;
  return {
    ...(toRestJson(SetFlowsResponseSchema, response) as object),
    ...(outcome !== 0 && { outcome: enumWord(DeploymentOutcomeSchema, outcome) }),
    ...(missingTypes.length > 0 && { missingTypes }),
    ...(undoneRev !== "" && { undoneRev }),
    ...(mergedRev !== "" && { mergedRev }),
  };
}
