import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { objectsOf } from './objects.ts';

export const exampleDirectory = fileURLToPath(new URL('../../deploy/examples', import.meta.url));

/** All of deploy/examples that kubectl takes; values are for helm. */
export const exampleFiles: readonly string[] = readdirSync(exampleDirectory, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.yaml') && !name.startsWith('values/'))
  .sort();

/** A device belongs to root in a pod, unless the node is set up otherwise; so do files whose owners are to be kept. */
const asRoot = ['copy-claim.yaml', 'raw-block.yaml'];

/** The pod security level that the pods of each example fit into. */
export const levels = {
  restricted: exampleFiles.filter((name) => !asRoot.includes(name)),
  baseline: asRoot,
} as const;

const securityContext = z.looseObject({
  runAsNonRoot: z.boolean().optional(),
  runAsUser: z.number().optional(),
  seccompProfile: z.object({ type: z.string() }).optional(),
  allowPrivilegeEscalation: z.boolean().optional(),
  capabilities: z.object({ drop: z.array(z.string()) }).optional(),
});
const podSpec = z.looseObject({
  securityContext: securityContext.optional(),
  containers: z.array(z.looseObject({ name: z.string(), securityContext: securityContext.optional() })),
});
const podTemplate = z.looseObject({ spec: z.looseObject({ template: z.looseObject({ spec: podSpec }) }) });

export interface Pod {
  readonly apiVersion: 'v1';
  readonly kind: 'Pod';
  readonly metadata: { readonly name: string };
  readonly spec: z.infer<typeof podSpec>;
}

/** The pods of an example, those that a StatefulSet makes too: no namespace refuses the set itself. */
export function podsOf(example: string): Pod[] {
  const objects = [...objectsOf(readFileSync(join(exampleDirectory, example), 'utf8')).values()];
  return objects.flatMap((object): Pod[] => {
    const { kind, metadata } = object;
    const pod = (spec: Pod['spec']): Pod => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: metadata.name },
      spec,
    });
    if (kind === 'Pod') return [pod(podSpec.parse(object['spec']))];
    const template = podTemplate.safeParse(object);
    if (!template.success) return [];
    const { spec } = template.data.spec.template;
    // The claims of the set are volumes of its pods, which the set itself adds.
    return [pod({ ...spec, containers: spec.containers.map(({ volumeMounts: _, ...container }) => container) })];
  });
}
