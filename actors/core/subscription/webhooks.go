package subscription

import (
	"context"
	"encoding/base64"
	"errors"
	"time"

	"parley/actors/core/collection"
	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/proto/deliverypb"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
	"parley/proto/webhookpb"
)

// Env is what the rules need besides the records. All of it is required, of who only looks for listeners none.
type Env struct {
	NewID  func(kind string) string
	Now    func() time.Time
	Random func([]byte) // fills it with cryptographic randomness
	// Seal encrypts a secret, Open decrypts it; about names what it belongs to.
	Seal func(secret []byte, about string) ([]byte, error)
	Open func(sealed []byte, about string) ([]byte, error)
	// Public says whether what the URL names has only addresses that may be called.
	Public func(ctx context.Context, url string) bool
	// Try makes one attempt and waits for it; nil = ctx has ended before.
	Try func(ctx context.Context, to *Endpoint, message *webhookpb.Message) *deliverypb.Report
	// Entities reaches the deliveries.
	Entities entity.Client
	// Ready says that every node of the cluster knows webhooks.
	Ready func() bool
	// ReadyForMany says that every node knows how to make many deliveries again.
	ReadyForMany func() bool
}

// Webhooks is where endpoints and their deliveries are managed, and where it is known who listens. It is safe for concurrent use.
type Webhooks struct {
	env       Env
	endpoints *collection.Collection[*directorypb.Webhook]
}

// New returns the webhooks over the records in a store.
func New(store collection.Store, env Env) *Webhooks {
	return &Webhooks{env: env, endpoints: collection.Proto(store, collection.Declaration[*directorypb.Webhook]{
		Name: Collection, Noun: "webhook endpoint", Key: (*directorypb.Webhook).GetId, Created: (*directorypb.Webhook).GetCreatedAt,
		Scope: func(w *directorypb.Webhook) string { return collection.Scope(Collection, w.GetTenantId()) },
		Terms: terms,
	})}
}

// Reach is which endpoints of its tenant a caller may manage.
type Reach struct {
	TenantID string
	// Sees says whether that includes those of a project; "" = those that hear every project.
	Sees func(projectID string) bool
}

// Project is the reach of who manages the endpoints of one project.
func Project(tenantID, projectID string) Reach {
	return Reach{TenantID: tenantID, Sees: func(other string) bool { return other == projectID && other != "" }}
}

func (r Reach) sees(record *directorypb.Webhook) bool {
	return record.GetTenantId() == r.TenantID && r.Sees(record.GetProjectId())
}

func tenantTerm(tenantID string) string    { return collection.Term("tenant", tenantID) }
func listeningTerm(tenantID string) string { return collection.Term("listening", tenantID) }
func hearsTerm(tenantID, projectID, kind string) string {
	return collection.Term("hears", tenantID, projectID, kind)
}

// terms are what an endpoint is found by: one that is active by each type that it hears, too.
func terms(w *directorypb.Webhook) []string {
	found := []string{tenantTerm(w.GetTenantId())}
	if !Active(w) {
		return found
	}
	found = append(found, listeningTerm(w.GetTenantId()))
	for _, one := range Catalogue() {
		if hears(w.GetEvents(), one.Type) {
			found = append(found, hearsTerm(w.GetTenantId(), w.GetProjectId(), one.Type))
		}
	}
	return found
}

// Listening says whether anybody of a tenant is told of anything.
func (d *Webhooks) Listening(tenantID string) bool {
	return d.endpoints.Count(listeningTerm(tenantID)) > 0
}

// Listeners are the endpoints that are told of an event of a type in a project. It is asked in the middle of each turn.
func (d *Webhooks) Listeners(tenantID, projectID, kind string) []string {
	found := d.endpoints.Keys(hearsTerm(tenantID, "", kind))
	if projectID == "" {
		return found
	}
	return append(d.endpoints.Keys(hearsTerm(tenantID, projectID, kind)), found...)
}

// List returns the endpoints that a caller may manage, newest first.
func (d *Webhooks) List(reach Reach) ([]*Endpoint, error) {
	records, err := d.endpoints.All(tenantTerm(reach.TenantID))
	if err != nil {
		return nil, err
	}
	found := make([]*Endpoint, 0, len(records))
	for _, record := range records {
		if !reach.sees(record) {
			continue
		}
		endpoint, failed := d.shown(record)
		if failed != nil {
			return nil, failed
		}
		found = append(found, endpoint)
	}
	return found, nil
}

// Get returns an endpoint.
func (d *Webhooks) Get(ctx context.Context, reach Reach, id string) (*Endpoint, error) {
	record, err := d.record(ctx, reach, id)
	if err != nil {
		return nil, err
	}
	return d.shown(record)
}

// record finds the record of an endpoint that the caller may manage.
func (d *Webhooks) record(ctx context.Context, reach Reach, id string) (*directorypb.Webhook, error) {
	if len(id) != len(endpointKind)+1+idLength {
		return nil, noEndpoint()
	}
	record, err := d.endpoints.Get(ctx, id)
	if _, missing := errors.AsType[*collection.MissingError](err); missing || err == nil && !reach.sees(record) {
		return nil, noEndpoint()
	}
	return record, err
}

func noEndpoint() error { return failure.New(failurepb.Code_NOT_FOUND, failure.EndpointNotFound) }

// shown opens the URL of a record.
func (d *Webhooks) shown(record *directorypb.Webhook) (*Endpoint, error) {
	text, err := d.env.Open(record.GetSealedUrl(), urlAbout(record.GetId()))
	if err != nil {
		return nil, err
	}
	return &Endpoint{Webhook: record, URL: string(text)}, nil
}

// Tenant is whose an endpoint is; empty = this node knows no such endpoint.
func (d *Webhooks) Tenant(ctx context.Context, id string) string {
	record, err := d.endpoints.Get(ctx, id)
	if err != nil {
		return ""
	}
	return record.GetTenantId()
}

// Open returns an endpoint as it is now with its secret, for who makes attempts; nil = there is none.
func (d *Webhooks) Open(ctx context.Context, id string) (*Endpoint, error) {
	record, err := d.endpoints.Get(ctx, id)
	if _, missing := errors.AsType[*collection.MissingError](err); missing {
		return nil, nil //nolint:nilnil // as said
	}
	if err != nil {
		return nil, err
	}
	endpoint, err := d.shown(record)
	if err != nil {
		return nil, err
	}
	secret, err := d.env.Open(record.GetSealedSecret(), secretAbout(id))
	endpoint.Secret = string(secret)
	return endpoint, err
}

// secretPrefix is how a secret begins; what follows is base64 of secretBytes, as the library Standard Webhooks wants it.
const (
	secretPrefix = "whsec_"
	secretBytes  = 32
)

func (d *Webhooks) newSecret() string {
	random := make([]byte, secretBytes)
	d.env.Random(random)
	return secretPrefix + base64.StdEncoding.EncodeToString(random)
}
