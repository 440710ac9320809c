import { isAbsolute } from "node:path";
import * as z from "zod";
import { isModuleName, isModuleRule, moduleDefaults } from "@flowgate/runtime/modules";
import { isPlainUrl, listOf, milliseconds, text, wholeNumber } from "./values.ts";

const rules = listOf(
  z
    .string("must be the name of a module")
    .refine(
      (rule) => isModuleRule(rule),
      "must be the name of a module, in which * stands for any characters, with or without a range of versions, such as node-red-contrib-* or @scope/name@^1.2",
    ),
  "names",
);

export const modules = z
  .strictObject({
    registry: z
      .string("must be a URL or a path")
      .refine(isRegistry, "must be an http or https URL without user and password, or the absolute path of a folder")
      .optional()
      .describe(
        "Source of modules: the URL of a registry of npm, or the absolute path of a folder that contains the packages as `.tgz` files, for machines without a network. Absent: the registry in `modules.npmrc`, or npm's own.",
      ),
    npmrc: text
      .optional()
      .describe(
        "Configuration file of npm with registries, tokens, proxies and certificates. Flows must not be able to write it. No other configuration of npm is read.",
      ),
    allow: rules
      .default([...moduleDefaults.allow])
      .describe(
        "Modules that may be installed and loaded: names, in which `*` stands for any characters, each with or without a range of versions, such as `node-red-contrib-*` or `@scope/name@^1.2`. All others may not.",
      ),
    deny: rules
      .default([...moduleDefaults.deny])
      .describe(
        "Modules that may not be installed and loaded, in the same form. If both lists name a module, the more specific entry decides, as in Node-RED's `externalModules.palette`.",
      ),
    scripts: listOf(
      z.string("must be the name of a package").refine((name) => isModuleName(name), "must be the name of a package"),
      "names",
    )
      .default([...moduleDefaults.scripts])
      .describe(
        "Packages whose install scripts are run, as the user of the service and outside of the sandbox, if they are in the registry by this name. Scripts of other packages, and of uploaded ones, are not run.",
      ),
    timeoutMs: milliseconds.default(moduleDefaults.timeoutMs).describe("How long an installation may take."),
    sizeMb: wholeNumber(1, 1_048_576)
      .default(moduleDefaults.sizeMb)
      .describe("Maximum size of the modules on the disk in MiB, including the downloads of an installation."),
  })
  .prefault({});

function isRegistry(value: string): boolean {
  return isAbsolute(value) || isPlainUrl(value);
}
