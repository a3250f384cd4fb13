import { styleText } from 'node:util';
import type { Config } from '../config/config.ts';
import { DiskQueue } from '../kernel/call/disk-queue.ts';
import type { Finding } from '../pool/sight.ts';
import { checkEncryption } from './checks/encryption.ts';
import { checkHost } from './checks/host.ts';
import { checkKernel } from './checks/kernel.ts';
import { checkMatches } from './checks/matches.ts';
import { checkKinds, checkPools } from './checks/pools.ts';
import { exitCodes, type Output, toJson } from './output/output.ts';
import { wrapped } from './output/text.ts';

const narrowest = 30;
const colours = { ok: 'green', warn: 'yellow', fail: 'red' } as const;

/** `holdfast doctor`: whether this node has what the driver needs, and what to do where it has not. */
export async function doctorCommand(config: Config, output: Output, options: { json: boolean }): Promise<number> {
  const queue = new DiskQueue('command line', 4);
  const findings = [
    ...(await checkHost(queue, config)),
    ...(await checkKernel(queue)),
    ...(await checkKinds(queue, config)),
    ...(await checkEncryption(queue, config, config.searchPath)),
    ...(await checkPools(config)),
    ...(await checkMatches(config)),
  ];
  const count = (status: Finding['status']) => findings.filter((finding) => finding.status === status).length;
  const isHealthy = count('fail') === 0;
  if (options.json) {
    output.line(toJson<'doctor'>({ healthy: isHealthy, findings }));
  } else {
    const width = Math.max(...findings.map(({ check }) => check.length));
    // First what there is to do.
    for (const status of ['fail', 'warn', 'ok'] as const) {
      for (const finding of findings.filter((each) => each.status === status)) printFinding(finding, width, output);
    }
    output.line('');
    output.line(`${counted(count('fail'), 'error')}, ${counted(count('warn'), 'warning')}, ${count('ok')} ok`);
  }
  return isHealthy ? exitCodes.ok : exitCodes.failed;
}

function counted(number: number, word: string): string {
  return `${number} ${word}${number === 1 ? '' : 's'}`;
}

/** Prints the remedy, and below it the reason. */
function printFinding({ check, status, detail, remedy }: Finding, width: number, output: Output): void {
  const word = status.padEnd(4);
  const [first, ...below] = remedy === undefined || remedy === '' ? [detail] : [remedy, detail];
  const indent = width + 8;
  // Beside a long name nothing would have room.
  const room = output.width === undefined ? Infinity : Math.max(narrowest, output.width - indent);
  const [start = '', ...rest] = [first, ...below.map((text) => `(${text})`)].flatMap((text) =>
    wrapped(text ?? '', room),
  );
  output.line(`${output.colours ? styleText(colours[status], word) : word}  ${check.padEnd(width)}  ${start}`);
  for (const line of rest) output.line(`${' '.repeat(indent)}${line}`);
}
