import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { version } from '../../src/version.ts';
import { projectRoot } from '../image/image.ts';

const kustomization = z.object({ resources: z.array(z.string()) });

/** Everything of `deploy/base` in one file, with the image of this release. */
export function installManifest(image: string): string {
  const base = join(projectRoot, 'deploy', 'base');
  const read = (name: string) => readFileSync(join(base, name), 'utf8');
  const { resources } = kustomization.parse(parse(read('kustomization.yaml')));
  const text = resources.map((name) => `${read(name).trim()}\n`).join('---\n');
  return text.replaceAll(`image: localhost/holdfast:${version}`, `image: ${image}`);
}
