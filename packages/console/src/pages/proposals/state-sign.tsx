import type { ReactNode } from "react";
import type { ProposalState } from "@flowgate/client";
import { Sign } from "../../components/sign.tsx";
import { texts } from "../../texts/proposals.ts";
import { states } from "./view.ts";

export function StateSign({ state }: { readonly state: ProposalState }): ReactNode {
  const { name, tone } = states.find((each) => each.state === state) ?? states[0];
  return <Sign tone={tone}>{texts.states[name]}</Sign>;
}
