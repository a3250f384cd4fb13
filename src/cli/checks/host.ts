import { readFile } from 'node:fs/promises';
import { inlineTools, missingTools, type Tool, tools } from '../../command/tools.ts';
import type { Config } from '../../config/config.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { explain } from '../../kernel/call/explain.ts';
import { statusOf } from '../../kernel/file/path.ts';
import { readMountTable } from '../../kernel/mount/mount-table.ts';
import { type Finding, fail, ok, warn } from '../../pool/sight.ts';

interface Capability {
  readonly name: string;
  /** Its number in linux/capability.h. */
  readonly bit: bigint;
  readonly status: 'fail' | 'warn';
  readonly without: string;
}

/** Beyond CAP_SYS_ADMIN, which CSI guarantees (O05), a driver has to say what it wants. */
const capabilities: readonly Capability[] = [
  { name: 'CAP_SYS_ADMIN', bit: 21n, status: 'fail', without: 'nothing can be mounted' },
  { name: 'CAP_DAC_OVERRIDE', bit: 1n, status: 'warn', without: "directories of other users can't be reached" },
  {
    name: 'CAP_SYS_RESOURCE',
    bit: 24n,
    status: 'warn',
    without: 'ext4 volumes grow at their next stage, not while mounted',
  },
];

/** Which of the capabilities this process has, from the text of /proc/self/status. */
function checkCapabilities(processStatus: string): Finding[] {
  return capabilities.map(({ name, bit, status, without }) => {
    if (hasCapability(processStatus, bit)) return ok(name, 'held');
    return { check: name, status, detail: `missing: ${without}`, remedy: remedyFor(name, processStatus) };
  });
}

function hasCapability(processStatus: string, bit: bigint): boolean {
  const digits = /^CapEff:\s*([0-9a-f]+)$/m.exec(processStatus)?.[1] ?? '0';
  return ((BigInt(`0x${digits}`) >> bit) & 1n) === 1n;
}

/** root may lack some, too: in a container that is not privileged, or under a service manager that drops them. */
function remedyFor(name: string, processStatus: string): string {
  const effectiveUser = /^Uid:\s*\d+\s+(\d+)/m.exec(processStatus)?.[1];
  return effectiveUser === '0'
    ? `Give it ${name}: it is root without. In Kubernetes: securityContext.privileged: true. In systemd: CapabilityBoundingSet.`
    : 'Run it as root: sudo holdfast doctor. In a container: securityContext.runAsUser: 0 and privileged: true.';
}

/** The programs the driver runs. */
async function checkTools(searchPath: string): Promise<Finding[]> {
  const missing = await missingTools(searchPath);
  const found = tools.filter((tool) => !missing.includes(tool)).map(({ program }) => program);
  const forInline = await missingTools(searchPath, inlineTools);
  return [
    ...(found.length === 0 ? [] : [ok('tools', found.join(', '))]),
    ...missing.map((tool) => fail(tool.program, `not found in ${searchPath}`, install(tool))),
    ...forInline.map((tool) =>
      warn(
        tool.program,
        `not found in ${searchPath}: inline volumes cannot be filled from a repository (gitRepository)`,
        `${install(tool)}, if inline volumes will be filled from a repository.`,
      ),
    ),
  ];
}

function install({ debianPackage }: Tool): string {
  return `Install it. On Debian: apt-get install ${debianPackage}`;
}

/** Checks that pods can see mounts below the kubelet's directory. */
async function checkKubeletDirectory(queue: DiskQueue, { kubeletDirectory }: Config): Promise<Finding> {
  const check = 'kubelet directory';
  try {
    const { mountId } = await statusOf(queue, kubeletDirectory);
    const mount = (await readMountTable(queue)).find(({ id }) => id === mountId);
    if (mount?.propagation === 'shared') return ok(check, `${kubeletDirectory}, on a shared mount`);
    return warn(
      check,
      `${kubeletDirectory} is on a ${mount?.propagation ?? 'hidden'} mount: mounts below it stay in this mount namespace`,
      'Harmless if the kubelet runs in the same namespace. In a container mount it with mountPropagation: Bidirectional; on the host make it shared with: mount --make-rshared /',
    );
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) return fail(check, explain(error), 'The driver must be able to reach it.');
    return warn(
      check,
      `${kubeletDirectory} does not exist`,
      'Set HOLDFAST_KUBELET_DIR if the kubelet has its data elsewhere.',
    );
  }
}

export async function checkHost(queue: DiskQueue, config: Config): Promise<Finding[]> {
  return [
    ...checkCapabilities(await readFile('/proc/self/status', 'utf8')),
    ...(await checkTools(config.searchPath)),
    await checkKubeletDirectory(queue, config),
  ];
}
