import { type ModuleLists, permitsModule } from "@flowgate/base/module-rules";
import type { ImportOutcome, ImportReport } from "./report.ts";
import type { Module } from "./required-modules.ts";
import { memberOf, reasonOf, type Setting, toJson } from "./settings-file.ts";

/**
 * Translates Node-RED's lists of modules with nodes and of modules for function nodes, which are one here. Modules of the flows that Node-RED
 * permits are permitted by it, too. Returns those that can be installed.
 */
export function translateModules(
  settings: Setting,
  modules: readonly Module[],
  report: ImportReport,
): readonly Module[] {
  const setting = memberOf(settings, "externalModules");
  if (setting === undefined) {
    return modules;
  }
  const add = (name: string, { line }: Setting, outcome: ImportOutcome, detail: string): void =>
    report.add({ name, file: `settings.js:${line}`, outcome, detail });
  const [ofNodes, ofFunctions] = (["palette", "modules"] as const).map((kind) => {
    const section = memberOf(setting, kind);
    for (const list of ["allowList", "denyList"]) {
      const found = memberOf(section, list);
      if (found !== undefined && !isTextList(toJson(found).value)) {
        add(`externalModules.${kind}.${list}`, found, "not_possible", reasonOf(found, "it is not a list of names"));
      }
    }
    return readLists(section);
  });
  const configured = [ofNodes, ofFunctions].filter((lists) => lists !== undefined);
  if (configured.length === 0) {
    add("externalModules", setting, "not_needed", "modules are installed with flowgate module install");
    return modules;
  }
  const allow = [...new Set(configured.flatMap((lists) => lists.allow))];
  const everything = allow.includes("*");
  const deny = [...new Set(configured.flatMap((lists) => lists.deny))].filter((entry) => entry !== "*" || !everything);

  const added: string[] = [];
  const refused = new Map<string, string>();
  for (const { name, forFunctions } of modules.filter((each) => !permitsModule({ allow, deny }, each.name))) {
    const own = forFunctions ? ofFunctions : ofNodes;
    if (own !== undefined && !permitsModule({ allow: [...own.allow, "*"], deny: own.deny }, name)) {
      refused.set(name, `its lists deny the module ${name}, which the flows need`);
    } else if (permitsModule({ allow: [...allow, name], deny }, name)) {
      added.push(name);
    } else {
      refused.set(name, `they deny the module ${name}, which the flows need: choose modules.allow and modules.deny`);
    }
  }
  const isSame = configured.length === 1 && added.length === 0;
  const more = added.length === 0 ? "" : `, with ${added.join(", ")} for the flows`;
  const merged = isSame
    ? "modules.allow and modules.deny"
    : `modules.allow and modules.deny, for nodes and functions${more}`;
  add("externalModules", setting, isSame ? "taken_over" : "changed", merged);
  report.set(["modules", "allow"], [...allow, ...added]);
  if (deny.length > 0) {
    report.set(["modules", "deny"], deny);
  }
  for (const detail of refused.values()) {
    add("externalModules", setting, "not_possible", detail);
  }
  return modules.filter(({ name }) => !refused.has(name));
}

/** Undefined: neither list is set, and all modules are permitted. */
function readLists(section: Setting | undefined): ModuleLists | undefined {
  const [allow, deny] = ["allowList", "denyList"].map((list) => {
    const { value } = toJson(memberOf(section, list));
    return isTextList(value) ? value : undefined;
  });
  return allow === undefined && deny === undefined ? undefined : { allow: allow ?? ["*"], deny: deny ?? [] };
}

function isTextList(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((entry) => typeof entry === "string");
}
