/** Of a pod's directory the pod says enough; its volume is named by whoever speaks of the path. */
const podDirectory = /\/pods\/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\//;
/** Kubernetes names staging directories by SHA-256. */
const longHash = /([0-9a-f]{8})[0-9a-f]{56}/;
const longestCharacters = 56;

/** A path as it stands in a message: such as Kubernetes makes up are so long that the rest would not be read. */
export function shortPath(path: string): string {
  const pod = podDirectory.exec(path)?.[0];
  if (pod !== undefined && path.length > longestCharacters) return `…${pod}…`;
  const short = path.replace(longHash, '$1…');
  // The end of a path says more than its beginning.
  return short.length <= longestCharacters ? short : `…${short.slice(1 - longestCharacters)}`;
}
