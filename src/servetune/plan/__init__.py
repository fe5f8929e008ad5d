"""From declarations to a plan: sessions, and the measurements that each owes."""
