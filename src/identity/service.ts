import { missingTools } from '../command/tools.ts';
import type { IdentityHandlers, PluginCapability } from '../csi/generated/types.ts';
import type { Pools } from '../pool/pools.ts';
import { FailedPrecondition } from '../volume/errors.ts';

export interface IdentityOptions {
  readonly name: string;
  readonly version: string;
  readonly pools: Pick<Pools, 'ready' | 'problems'>;
  /** undefined: those of a driver for its node's disks. */
  readonly capabilities?: readonly PluginCapability[];
  /** Directories to search for programs: the value of PATH. */
  readonly searchPath: string;
}

/** The same for every node and mode: they describe the driver, not this process (I05). */
export const pluginCapabilities: PluginCapability[] = [
  { service: { type: 'CONTROLLER_SERVICE' } },
  { service: { type: 'VOLUME_ACCESSIBILITY_CONSTRAINTS' } },
  { service: { type: 'GROUP_CONTROLLER_SERVICE' } },
  { service: { type: 'SNAPSHOT_METADATA_SERVICE' } },
  { volume_expansion: { type: 'ONLINE' } },
];

/** The same on both sides of a driver whose volumes every node can reach. */
export const clusterPluginCapabilities: readonly PluginCapability[] = [
  { service: { type: 'CONTROLLER_SERVICE' } },
  { service: { type: 'GROUP_CONTROLLER_SERVICE' } },
  { volume_expansion: { type: 'ONLINE' } },
];

/** The same where volumes are in zones. */
export const zonedPluginCapabilities: readonly PluginCapability[] = [
  ...clusterPluginCapabilities,
  { service: { type: 'VOLUME_ACCESSIBILITY_CONSTRAINTS' } },
];

/** The Identity service. Probe waits for no disk: it costs nothing once the tools have been found. */
export function identityService({
  capabilities = pluginCapabilities,
  name,
  pools,
  searchPath,
  version,
}: IdentityOptions): IdentityHandlers {
  let toolsFound = false;

  async function toolProblems(): Promise<string[]> {
    // Searches again for missing tools: they may have been installed since.
    const missing = toolsFound ? [] : await missingTools(searchPath);
    toolsFound = missing.length === 0;
    return missing.map(({ program, debianPackage }) => `${program} is not on this node: install ${debianPackage}.`);
  }

  return {
    async GetPluginInfo() {
      return { name, vendor_version: version };
    },

    async GetPluginCapabilities() {
      return { capabilities: [...capabilities] };
    },

    async Probe() {
      const problems = [...(await toolProblems()), ...pools.problems()];
      if (problems.length > 0) throw new FailedPrecondition(problems.join(' ')); // I08
      return { ready: { value: pools.ready() } }; // I07
    },
  };
}
