import { parseAllDocuments } from 'yaml';
import { z } from 'zod';

const kubernetesObject = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({ name: z.string(), namespace: z.string().optional() }),
});

/** As far as all objects of Kubernetes are alike. */
export type KubernetesObject = z.infer<typeof kubernetesObject>;

/** The objects of a YAML stream, by kind and name. */
export function objectsOf(text: string): Map<string, KubernetesObject> {
  const documents = parseAllDocuments(text, { merge: true });
  if (!Array.isArray(documents)) return new Map();
  const contents = documents.map((document): unknown => document.toJS()).filter((content) => content !== null);
  const objects = z.array(kubernetesObject).parse(contents);
  return new Map(objects.map((object) => [`${object.kind} ${object.metadata.name}`, object]));
}
