package identity

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"

	"parley/actors/core/access"
	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// Registration is what somebody registers a company with. They become its owner.
type Registration struct {
	Company, Slug string // Slug "" = made of the company's name
	Name, Email   string
	Password      string
}

// Check refuses what could not be registered whatever else exists, and normalises the rest.
func (r *Registration) Check() error {
	r.Company, r.Name, r.Slug = strings.TrimSpace(r.Company), strings.TrimSpace(r.Name), strings.TrimSpace(r.Slug)
	if r.Company == "" || r.Name == "" || strings.TrimSpace(r.Email) == "" || r.Password == "" {
		return failure.New(failurepb.Code_VALIDATION, failure.RegistrationIncomplete)
	}
	var err error
	if r.Email, err = SignInEmail(r.Email); err != nil {
		return err
	}
	in := r.tenant()
	if _, err = in.check(); err != nil {
		return err
	}
	r.Slug = in.Slug
	return CheckPassword(r.Password)
}

func (r *Registration) tenant() NewTenant {
	return NewTenant{Name: r.Company, Slug: r.Slug, Tier: string(access.Free), Owner: r.Name, OwnerEmail: r.Email}
}

// CheckCompany says whether a registration would be refused for its slug now. Register decides.
func (a *Accounts) CheckCompany(r *Registration) error {
	return companyTaken(a.tenants.CheckUnique(&directorypb.Tenant{Slug: r.Slug}))
}

// Register creates a tenant with an owner who signs in. The registration is checked; hash is that of its password.
func (a *Accounts) Register(ctx context.Context, r *Registration, hash []byte) (Founded, error) {
	made, err := a.found(ctx, r.tenant(), a.newSignIn(hash))
	return made, companyTaken(err)
}

// accessCode is a code with which somebody has registered.
type accessCode struct {
	Hash string `json:"hash"` // of the code, hex
	By   string `json:"by"`   // email
	At   int64  `json:"at"`
}

// TakeAccessCode uses up one of the valid codes for a registration, of several at once for one only. giveBack is for a registration
// that was refused all the same.
func (a *Accounts) TakeAccessCode(ctx context.Context, valid []string, given, email string) (giveBack func(context.Context), err error) {
	if given = strings.TrimSpace(given); given == "" {
		return nil, failure.New(failurepb.Code_VALIDATION, failure.AccessCodeMissing)
	}
	sum, known := sha256.Sum256([]byte(given)), 0
	for _, code := range valid {
		other := sha256.Sum256([]byte(code))
		known |= subtle.ConstantTimeCompare(sum[:], other[:])
	}
	if known == 0 {
		return nil, failure.New(failurepb.Code_VALIDATION, failure.AccessCodeInvalid)
	}
	code := &accessCode{Hash: hex.EncodeToString(sum[:]), By: email, At: a.env.Now().UnixMilli()}
	added, err := a.codes.Add(ctx, code)
	if err == nil && !added {
		err = failure.New(failurepb.Code_VALIDATION, failure.AccessCodeInvalid)
	}
	return func(ctx context.Context) { a.codes.Drop(ctx, code.Hash) }, err
}

func (a *Accounts) newSignIn(hash []byte) *directorypb.SignIn {
	return &directorypb.SignIn{Password: hash, Generation: 1, ChangedAt: a.env.Now().UnixMilli()}
}

// companyTaken words a taken slug for people who register.
func companyTaken(err error) error {
	if collection.IsConflict(err) {
		return failure.New(failurepb.Code_ALREADY_EXISTS, failure.CompanyNameTaken)
	}
	return err
}

// SignInEmail is an email by which somebody signs in, as it is stored: lower case and ASCII, so that no two that look or compare
// alike are two accounts.
func SignInEmail(given string) (string, error) {
	email, err := readEmail(given)
	if err != nil || email == "" || strings.ContainsFunc(email, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", failure.New(failurepb.Code_VALIDATION, failure.BadEmail)
	}
	return email, nil
}
