import { useEffect, useState } from 'preact/hooks';

/** The view and its filters, in the address: it can be shared, and has no secret. */
export type Route = Readonly<Record<string, string>>;

const listeners = new Set<() => void>();

function routeNow(): Route {
  return Object.fromEntries(new URLSearchParams(location.search));
}

function addressOf(route: Route): string {
  const query = new URLSearchParams(Object.entries(route).filter(([, value]) => value !== '')).toString();
  return `${location.pathname}${query === '' ? '' : `?${query}`}`;
}

/** To another view, as a link leads there. */
export function go(route: Route): void {
  history.pushState(null, '', addressOf(route));
  for (const listener of listeners) listener();
}

/** The same view with another filter. */
export function filterBy(change: Route): void {
  history.replaceState(null, '', addressOf({ ...routeNow(), ...change }));
  for (const listener of listeners) listener();
}

export function linkTo(route: Route): { href: string; onClick: (event: MouseEvent) => void } {
  return {
    href: addressOf(route),
    onClick(event) {
      // A new tab would have no token: it says so itself.
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
      event.preventDefault();
      go(route);
    },
  };
}

export function useRoute(): Route {
  const [route, setRoute] = useState(routeNow);
  useEffect(() => {
    const update = () => setRoute(routeNow());
    listeners.add(update);
    addEventListener('popstate', update);
    return () => {
      listeners.delete(update);
      removeEventListener('popstate', update);
    };
  }, []);
  return route;
}
