import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { buildBundle } from '../../scripts/build.ts';

const stepTrace = fileURLToPath(new URL('./step-trace.ts', import.meta.url));

/** How to start the driver as it is shipped: it starts twice as fast as its sources, and here it starts hundreds of times. */
export interface DriverCommand extends Disposable {
  readonly plain: readonly string[];
  /** The same driver, which writes down every step it passes: see step-trace.ts. */
  readonly traced: readonly string[];
}

/** Builds the bundle in a directory of its own, for as long as it is needed. */
export async function buildDriver(): Promise<DriverCommand> {
  const directory = await mkdtemp('/var/tmp/holdfast-crash-bundle-');
  const remove = () => rmSync(directory, { recursive: true, force: true });
  try {
    const { file } = await buildBundle(directory);
    return {
      plain: [process.execPath, file],
      traced: [process.execPath, '--import', stepTrace, file],
      [Symbol.dispose]: remove,
    };
  } catch (error) {
    remove();
    throw error;
  }
}
