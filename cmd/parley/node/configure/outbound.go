package configure

import (
	"context"
	"errors"

	"parley/actors/deliver"
	"parley/cmd/parley/config"
	"parley/httpedge/export"
	"parley/httpedge/hook"
)

// Guard makes the guard of outbound calls that agents and users cause.
func Guard(c *config.Config) (*deliver.Guard, error) {
	allowed, err := c.Outbound.Prefixes()
	if err != nil {
		return nil, err
	}
	return deliver.NewGuard(deliver.GuardConfig{Allow: allowed, AllowHosts: c.Outbound.AllowHosts}), nil
}

// CheckCallback checks the URL of a callback before it is stored. Its error texts are appended to a field's name.
func CheckCallback(guard *deliver.Guard) func(ctx context.Context, url string) error {
	return func(ctx context.Context, url string) error {
		err := guard.Judge(ctx, url)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, deliver.ErrForbiddenAddress):
			return errors.New("leads to an address that is not allowed")
		}
		return errors.New("must be an absolute http or https URL without a user")
	}
}

// Printer starts the browser that prints PDF; nil if none is configured.
func Printer(c *config.Config) (export.Printer, error) {
	if c.Export.Chromium == "" {
		return nil, nil //nolint:nilnil // a printer is optional
	}
	return export.NewChromium(export.ChromiumConfig{
		Path: c.Export.Chromium, Timeout: c.Export.Timeout, MaxConcurrent: c.Export.MaxConcurrent,
		NoSandbox: c.Export.NoSandbox,
	})
}

// Hooks returns the settings of the operator's hooks.
func Hooks(c *config.Config) hook.Config {
	endpoint := func(h config.Hook) hook.Endpoint {
		return hook.Endpoint{URL: h.URL, Secret: h.Secret.Reveal(), Timeout: h.Timeout, OnError: h.OnError}
	}
	return hook.Config{
		ResolveContext: endpoint(c.Hooks.ResolveContext), RateLimit: endpoint(c.Hooks.RateLimit),
		AuthorizeBudget: endpoint(c.Hooks.AuthorizeBudget), AuthorizeResolve: endpoint(c.Hooks.AuthorizeResolve),
		Headers: []string{c.Auth.HeaderName, "Cookie"},
	}
}
