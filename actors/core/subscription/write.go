package subscription

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"unicode/utf8"

	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
	"parley/proto/webhookpb"
)

// Creator is on whose behalf an endpoint is created.
type Creator struct{ TenantID, ProjectID, UserID string }

// Input is a new endpoint.
type Input struct {
	URL         string
	Events      []string
	Description string
	// Whole has it hear every project of the tenant, instead of the creator's.
	Whole bool
}

// Change is what to change of an endpoint; nil stays as it is.
type Change struct {
	URL, Description, Status *string
	Events                   *[]string
}

// Create stores an endpoint and returns it with its secret, which is shown this once.
func (d *Webhooks) Create(ctx context.Context, by Creator, in Input) (*Endpoint, error) {
	if !d.env.Ready() {
		return nil, failure.New(failurepb.Code_UNAVAILABLE, failure.WebhooksNotYet)
	}
	events, err := checkEvents(in.Events)
	if err != nil {
		return nil, err
	}
	if err = checkDescription(in.Description); err != nil {
		return nil, err
	}
	if err = d.checkURL(ctx, in.URL); err != nil {
		return nil, err
	}
	now := d.env.Now().UnixMilli()
	record := &directorypb.Webhook{
		Id: d.env.NewID(endpointKind), TenantId: by.TenantID, ProjectId: by.ProjectID, Description: in.Description, Events: events,
		Generation: 1, CreatedBy: by.UserID, CreatedAt: now, UpdatedAt: now,
	}
	if in.Whole {
		record.ProjectId = ""
	}
	secret := d.newSecret()
	if err = errors.Join(d.sealURL(record, in.URL), d.sealSecret(record, secret)); err != nil {
		return nil, err
	}
	limit := collection.Limit{Term: tenantTerm(by.TenantID), Most: MaxEndpoints, Reached: func(int) error {
		return failure.New(failurepb.Code_LIMIT_REACHED, failure.EndpointsFull).Param("most", MaxEndpoints)
	}}
	if err = d.endpoints.Create(ctx, record, nil, limit); err != nil {
		return nil, err
	}
	return &Endpoint{Webhook: record, URL: in.URL, Secret: secret}, nil
}

func (d *Webhooks) sealURL(record *directorypb.Webhook, text string) (err error) {
	record.SealedUrl, err = d.env.Seal([]byte(text), urlAbout(record.GetId()))
	return err
}

func (d *Webhooks) sealSecret(record *directorypb.Webhook, secret string) (err error) {
	record.SealedSecret, err = d.env.Seal([]byte(secret), secretAbout(record.GetId()))
	return err
}

// Change changes an endpoint. One that is made active is one that never failed; its address is judged anew.
func (d *Webhooks) Change(ctx context.Context, reach Reach, id string, change Change) (*Endpoint, error) {
	if _, err := d.record(ctx, reach, id); err != nil {
		return nil, err
	}
	if err := change.check(); err != nil {
		return nil, err
	}
	judged := ""
	for {
		endpoint, err := d.Get(ctx, reach, id)
		if err != nil {
			return nil, err
		}
		leads := change.leads(endpoint.URL)
		if leads != "" && leads != judged {
			if err = d.checkURL(ctx, leads); err != nil {
				return nil, err
			}
			judged = leads
		}
		generation := endpoint.GetGeneration()
		record, err := d.endpoints.Change(ctx, id, func(record *directorypb.Webhook) error {
			if record.GetGeneration() != generation {
				return errMoved
			}
			return d.apply(change, record)
		})
		switch {
		case errors.Is(err, errMoved):
			continue // the URL that was judged may not be the one that is stored
		case err != nil:
			return nil, gone(err)
		}
		if record.GetGeneration() != generation {
			d.tell(ctx, record)
		}
		return d.shown(record)
	}
}

var errMoved = errors.New("the endpoint was changed meanwhile")

// leads is the URL that an endpoint leads to from now on if that has to be judged, else "".
func (c *Change) leads(stored string) string {
	switch {
	case c.URL != nil:
		return *c.URL
	case c.Status != nil && *c.Status == StatusActive:
		return stored
	}
	return ""
}

func (c *Change) check() error {
	if c.Events != nil {
		events, err := checkEvents(*c.Events)
		if err != nil {
			return err
		}
		c.Events = &events
	}
	if c.Status != nil && *c.Status != StatusActive && *c.Status != StatusDisabled {
		return invalid(failure.BadEndpointStatus).In("status")
	}
	if c.Description != nil {
		if err := checkDescription(*c.Description); err != nil {
			return err
		}
	}
	if c.URL != nil {
		if _, err := parseURL(*c.URL); err != nil {
			return err
		}
	}
	return nil
}

// apply writes a change into a record.
func (d *Webhooks) apply(c Change, record *directorypb.Webhook) error {
	record.UpdatedAt = d.env.Now().UnixMilli()
	if c.Events != nil {
		record.Events = *c.Events
	}
	if c.Description != nil {
		record.Description = *c.Description
	}
	if c.URL != nil {
		record.Generation++
		if err := d.sealURL(record, *c.URL); err != nil {
			return err
		}
	}
	if c.Status == nil {
		return nil
	}
	if disabled := *c.Status == StatusDisabled; disabled == Active(record) {
		record.Generation++
		if record.DisabledReason = ""; disabled {
			record.DisabledReason = Manual
		} else {
			record.FailingSince = 0
		}
	}
	return nil
}

// Rotate gives an endpoint a new secret and returns it. The old one signs nothing any more.
func (d *Webhooks) Rotate(ctx context.Context, reach Reach, id string) (*Endpoint, error) {
	if _, err := d.record(ctx, reach, id); err != nil {
		return nil, err
	}
	secret := d.newSecret()
	record, err := d.endpoints.Change(ctx, id, func(record *directorypb.Webhook) error {
		record.UpdatedAt = d.env.Now().UnixMilli()
		record.Generation++
		return d.sealSecret(record, secret)
	})
	if err != nil {
		return nil, gone(err)
	}
	d.tell(ctx, record)
	endpoint, err := d.shown(record)
	if err != nil {
		return nil, err
	}
	endpoint.Secret = secret
	return endpoint, nil
}

// Delete removes an endpoint and what it was told.
func (d *Webhooks) Delete(ctx context.Context, reach Reach, id string) error {
	if _, err := d.record(ctx, reach, id); err != nil {
		return err
	}
	if err := d.endpoints.Delete(ctx, id, nil); err != nil {
		return gone(err)
	}
	// Without a record the deliveries remove themselves when they are looked at next, if this is lost.
	_, _ = d.env.Entities.Ask(ctx, id, &webhookpb.Command{Id: id, Body: &webhookpb.Command_Remove{Remove: &webhookpb.Remove{}}})
	return nil
}

// tell has the deliveries see that their endpoint has changed. They look before each attempt in any case.
func (d *Webhooks) tell(ctx context.Context, record *directorypb.Webhook) {
	_, _ = d.env.Entities.Ask(ctx, record.GetId(), Changed(record))
}

// Changed is the command that tells the deliveries of an endpoint how a person has left it.
func Changed(record *directorypb.Webhook) *webhookpb.Command {
	return &webhookpb.Command{Id: record.GetId(), Body: &webhookpb.Command_Changed{Changed: &webhookpb.Changed{
		Generation: record.GetGeneration(), FailingSince: record.GetFailingSince(),
	}}}
}

// Settle writes what was found out about an endpoint into its record, unless a person has changed it since or it is gone.
func (d *Webhooks) Settle(ctx context.Context, id string, wish *webhookpb.Wish) error {
	_, err := d.endpoints.Change(ctx, id, func(record *directorypb.Webhook) error {
		if wish.GetGeneration() != 0 && record.GetGeneration() != wish.GetGeneration() {
			return errMoved
		}
		record.FailingSince = wish.GetFailingSince()
		if reason := wish.GetDisabledReason(); reason != "" && Active(record) {
			record.DisabledReason = reason
			record.UpdatedAt = d.env.Now().UnixMilli()
		}
		return nil
	})
	if _, missing := errors.AsType[*collection.MissingError](err); missing || errors.Is(err, errMoved) {
		return nil
	}
	return err
}

// gone is the failure of an endpoint that was deleted meanwhile.
func gone(err error) error {
	if _, missing := errors.AsType[*collection.MissingError](err); missing {
		return noEndpoint()
	}
	return err
}

func invalid(reason failure.Reason) *failure.Failure {
	return failure.New(failurepb.Code_INVALID_REQUEST, reason)
}

// checkEvents takes what an endpoint asks for, each once.
func checkEvents(events []string) (asked []string, err error) {
	if len(events) == 0 {
		return nil, invalid(failure.NoEventTypes).In("events")
	}
	for _, wanted := range events {
		if !known(wanted) {
			const shown = 100
			return nil, invalid(failure.UnknownEventType).In("events").Param("type", cut(wanted, shown))
		}
		if !slices.Contains(asked, wanted) {
			asked = append(asked, wanted)
		}
	}
	return asked, nil
}

func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most])
	}
	return text
}

func checkDescription(text string) error {
	switch {
	case !utf8.ValidString(text):
		return invalid(failure.NotUTF8).In("description")
	case utf8.RuneCountInString(text) > MaxDescription:
		return invalid(failure.AtMostCharacters).In("description").Param("most", MaxDescription)
	}
	return nil
}

// checkURL refuses what events cannot be posted to.
func (d *Webhooks) checkURL(ctx context.Context, text string) error {
	if _, err := parseURL(text); err != nil {
		return err
	}
	if !d.env.Public(ctx, text) {
		return invalid(failure.URLNotPublic).In("url")
	}
	return nil
}

func parseURL(text string) (*url.URL, error) {
	if text == "" {
		return nil, invalid(failure.Required).In("url")
	}
	if utf8.RuneCountInString(text) > MaxURL {
		return nil, invalid(failure.AtMostCharacters).In("url").Param("most", MaxURL)
	}
	parsed, err := url.Parse(text)
	switch {
	case err != nil || !parsed.IsAbs() || !utf8.ValidString(text):
		return nil, invalid(failure.BadURL).In("url")
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return nil, invalid(failure.URLScheme).In("url")
	case parsed.Hostname() == "":
		return nil, invalid(failure.BadURL).In("url")
	}
	return parsed, nil
}
