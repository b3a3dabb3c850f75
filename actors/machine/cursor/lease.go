package cursor

import "github.com/google/uuid"

// LeaseEnd returns the instant at which the lease of the row ends, the hold included. ok is false when the row has none.
func (s *State) LeaseEnd(holds Holds) (endMicros uint64, ok bool) {
	if s.Lease.ID == uuid.Nil {
		return 0, false
	}
	return holds.end(s.Lease.GrantedTerm, s.Lease.ExpiresMicros), true
}

// LeaseLive tells whether the group holds a lease (messaging 5.5.2).
func (s *State) LeaseLive(now uint64, holds Holds) bool {
	end, ok := s.LeaseEnd(holds)
	return ok && now < end
}

// HoldsLease tells whether a lease id is the live lease of the group (messaging 6.4.2, 8.2).
func (s *State) HoldsLease(now uint64, lease uuid.UUID, holds Holds) bool {
	return lease != uuid.Nil && s.Lease.ID == lease && s.LeaseLive(now, holds)
}

// Extend prolongs the live lease to now + extendMicros and never shortens it (messaging 7): what a hold has given it
// stays. The lease counts as granted in term from then on (cluster 10). Extend returns the new expiry; ok is false, and
// nothing changes, when the id is not the live lease.
func (s *State) Extend(now uint64, lease uuid.UUID, extendMicros, term uint64, holds Holds) (expiresMicros uint64, ok bool) {
	if !s.HoldsLease(now, lease, holds) {
		return 0, false
	}
	end, _ := s.LeaseEnd(holds)
	s.Lease.ExpiresMicros = max(end, saturatingAdd(now, extendMicros))
	s.Lease.GrantedTerm = term
	return s.Lease.ExpiresMicros, true
}
